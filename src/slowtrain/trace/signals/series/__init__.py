"""Series of step times: trends, jumps, early and late steps."""
