"""Reads a log into failures and allocator dumps."""
