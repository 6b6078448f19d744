"""Proves that a function that a data set maps over elements gives the same results for whole batches."""
