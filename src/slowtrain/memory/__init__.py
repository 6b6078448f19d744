"""Device memory before a long run: the allocator's own record of a few steps, replayed at other batch sizes."""
