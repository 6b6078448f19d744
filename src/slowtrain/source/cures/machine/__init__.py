"""Edits of limits that a script sets itself."""
