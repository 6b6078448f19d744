"""Measured values that recordings and profiles share, as NumPy columns: spans, steps, kernels, pipelines, intervals."""
