"""Samples of the machine while a script runs."""
