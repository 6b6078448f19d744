"""Edits of a script (cures) and what lint sees in it (spots)."""
