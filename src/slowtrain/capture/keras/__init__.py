"""Patches of Keras 2 and 3: loops and steps, callbacks, PyDataset, saving."""
