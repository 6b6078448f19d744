"""Edits that make a step's operations cost less."""
