"""Memory that runs out, is wasted or grows."""
