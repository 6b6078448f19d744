"""Input that surely costs too much."""
