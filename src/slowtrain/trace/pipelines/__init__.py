"""The input pipelines of a recording, from TensorFlow's counters."""
