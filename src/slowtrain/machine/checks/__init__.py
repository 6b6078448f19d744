"""Checks of the facts against the tables."""
