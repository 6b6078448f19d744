"""Pairs of processes, their statistics and losses, edited files, and the proof of candidates."""
