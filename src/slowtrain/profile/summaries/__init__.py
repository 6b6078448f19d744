"""Why a device waits, the division of its steps, what a profile lacks, and totals per step."""
