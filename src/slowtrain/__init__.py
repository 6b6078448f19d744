"""Find out why a training step is slow, what each cause costs, and whether a fix works."""

import importlib

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """Imports ``slowtrain.Monitor`` and ``slowtrain.record`` on first use, so that ``import slowtrain`` stays fast."""
    if name in ("Monitor", "record"):
        return getattr(importlib.import_module("slowtrain.monitor"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
