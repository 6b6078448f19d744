"""The computer itself."""
