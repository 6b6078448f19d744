"""What a script says about its input: the pipelines in it, their operations and elements."""
