"""Profiles and recordings on disk, found by names and sizes alone, without importing NumPy."""
