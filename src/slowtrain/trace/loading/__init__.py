"""Builds traces from recordings, profiles and drawings."""
