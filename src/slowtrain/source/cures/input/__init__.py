"""Edits that make input cost less."""
