"""The steps of a recording and the division of steps and run."""
