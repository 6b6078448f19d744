"""The loop of ``slowtrain fix``."""
