"""Abstract values, operators, shapes, events, the run's context."""
