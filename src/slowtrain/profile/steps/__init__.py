"""The steps of a profile."""
