"""Bytes between host and device."""
