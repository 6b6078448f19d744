"""Lines, sizes and tracebacks of a log."""
