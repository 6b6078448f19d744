"""Lint rules that several causes share.

compute   ops, embedding tables, number formats
host      Python and Keras in the training process
input     data sets, generators and loops that make their own batches
steps     copies and readbacks in steps, and rules on the events of the interpreter
"""
