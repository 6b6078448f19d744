"""Builds traces from recordings, profiles and drawings; input pipelines from TensorFlow's counters."""
