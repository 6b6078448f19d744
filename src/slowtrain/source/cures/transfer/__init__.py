"""Edits that make waiting for values of the device cost less."""
