"""One file: its text, its tree, edits that keep every other byte."""
