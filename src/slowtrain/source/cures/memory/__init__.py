"""Edits that let go of what a run keeps and nobody needs any more."""
