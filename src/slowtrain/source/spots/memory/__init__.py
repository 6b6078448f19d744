"""What is kept from turn to turn."""
