"""Watches what grows during training: memory, containers with names, other objects."""
