"""Questions that causes ask of a trace, by family."""
