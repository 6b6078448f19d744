"""Python and dispatch."""
