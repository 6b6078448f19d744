"""It was faster an hour ago: steps that grow, stall, or change from one epoch to the next."""
