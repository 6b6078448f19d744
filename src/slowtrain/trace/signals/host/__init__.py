"""The host's work: Python of the loop, retraces, start-up, checkpoints, stalls."""
