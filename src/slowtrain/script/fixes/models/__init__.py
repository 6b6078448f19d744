"""Edits of Keras models, their calls and callbacks, and of embedding tables."""
