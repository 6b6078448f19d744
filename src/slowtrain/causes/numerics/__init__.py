"""Numbers that are none, or slow."""
