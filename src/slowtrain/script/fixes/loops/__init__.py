"""Edits of loops: statements moved out of them, retracing, readbacks, NumPy in place of Python."""
