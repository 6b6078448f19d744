"""Predicts device memory before a long run: replays the allocator's record of a few steps at other batch sizes."""
