"""Lint rules about ops, embedding tables and number formats."""
