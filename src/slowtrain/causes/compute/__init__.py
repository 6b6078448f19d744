"""The device is busy, and could be busy for less long."""
