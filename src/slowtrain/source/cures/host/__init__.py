"""Edits that make the host's Python and Keras cost less."""
