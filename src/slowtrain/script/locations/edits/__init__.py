"""Edits at the places that a recording names."""
