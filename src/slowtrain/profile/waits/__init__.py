"""Why a device waits, the division of its steps, and what a profile lacks."""
