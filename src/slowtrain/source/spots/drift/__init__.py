"""What surely makes steps slower the longer a run lasts."""
