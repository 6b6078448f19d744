"""Before the steady state."""
