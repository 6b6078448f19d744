"""Builds traces from recordings and profiles; input pipelines from TensorFlow's counters."""
