"""Losses at other learning rates and with other batches than the script's own."""
