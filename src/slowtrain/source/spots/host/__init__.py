"""Python and Keras that surely cost too much."""
