"""Edits that keep numbers in their range."""
