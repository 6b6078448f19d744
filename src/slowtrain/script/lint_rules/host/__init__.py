"""Lint rules about Python and Keras in the training process."""
