"""Why steps get slower over the run."""
