"""Runs a step again that gave NaN or infinity, and searches for subnormal numbers."""
