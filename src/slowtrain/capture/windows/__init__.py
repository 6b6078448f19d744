"""The frameworks' profilers and the line tracer, for a few steps each."""
