"""Processes in turns, their statistics and losses."""
