"""What devices and host threads did in a profile, as columns."""
