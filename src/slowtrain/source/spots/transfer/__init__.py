"""Values that go to and from the device more often, or wider, than they need."""
