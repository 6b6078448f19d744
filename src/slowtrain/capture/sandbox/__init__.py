"""Runs a probe of the script that changes none of the user's files."""
