"""Lint rules about the input."""
