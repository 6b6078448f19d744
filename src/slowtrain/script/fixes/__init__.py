"""Edits of a script that several causes share.

elementwise   proves that a mapped function gives the same results for whole batches
input         data sets, generators and loops that make their own batches
models        Keras models, their calls and callbacks, embedding tables
loops         statements moved out of loops, retracing, readbacks, loops rewritten over arrays
"""
