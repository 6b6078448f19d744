"""Losses at other learning rates than the script's own."""
