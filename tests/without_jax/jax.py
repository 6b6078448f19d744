"""Stands in for JAX in tests of TensorFlow. TensorFlow imports JAX if it is installed, which takes a second."""

raise ImportError("tests of TensorFlow run without JAX")
