"""Reads somebody's profiler file: its format, activity, steps, waits and summaries."""
