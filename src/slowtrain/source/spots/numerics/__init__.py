"""Numbers that leave their range, or are wider than they need be."""
