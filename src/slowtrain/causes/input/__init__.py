"""The step waits for its next batch."""
