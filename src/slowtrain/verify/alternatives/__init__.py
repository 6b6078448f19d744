"""Measures cheaper models beside the script's own: what each does to a step, to memory, and to the loss."""
