"""Statements, expressions, calls; entry points and queries on events."""
