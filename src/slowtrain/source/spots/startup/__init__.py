"""What surely makes a start longer than it need be."""
