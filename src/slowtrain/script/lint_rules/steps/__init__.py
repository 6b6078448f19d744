"""Lint rules about copies and readbacks in steps, and rules on the events of the interpreter."""
