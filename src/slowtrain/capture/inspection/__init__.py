"""Reads frames, arguments, graphs and containers without calling code of the user's."""
