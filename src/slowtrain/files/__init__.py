"""What lies on the disk, by names and sizes alone: whether it is there is answered without NumPy."""
