"""Private evaluators of expressions, to be replaced by the interpreter."""
