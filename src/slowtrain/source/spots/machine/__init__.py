"""What surely does not work with the libraries that a script imports."""
