"""Edits of a script that several causes share.

input    data sets, generators and loops that make their own batches
models   Keras models, their calls and batch sizes, table lookups
loops    statements moved out of loops, periodic work, retracing, readbacks, loops rewritten over arrays
"""
