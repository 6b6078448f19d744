"""Trials of batch sizes and devices."""
