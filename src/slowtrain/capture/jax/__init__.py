"""Patches of JAX: Keras on its JAX backend, and custom loops."""
