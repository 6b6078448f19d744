"""What a function, loop or model does or may do."""
