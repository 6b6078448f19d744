"""Starts the user's script, and begins and ends a recording in its process."""
