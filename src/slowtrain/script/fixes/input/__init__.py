"""Edits of the input: data sets, generators, and loops that make their own batches."""
