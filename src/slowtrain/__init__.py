"""Why is this training step slow, what is each reason worth, and does the cure work?"""

import importlib

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """``slowtrain.Monitor`` and ``slowtrain.record``: importing slowtrain itself imports nothing of theirs."""
    if name in ("Monitor", "record"):
        return getattr(importlib.import_module("slowtrain.monitor"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
