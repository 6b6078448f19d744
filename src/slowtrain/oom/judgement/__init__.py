"""Why memory ran out, and what helps."""
