"""What memory grows by."""
