"""Reads a training script: names, values, calls, loops, and the lines behind a recording's measurements."""
