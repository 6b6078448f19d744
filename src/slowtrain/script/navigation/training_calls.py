"""Calls that take training steps, and what they receive."""

from __future__ import annotations

import ast

from slowtrain.script.navigation import call_index, node_lookup
from slowtrain.script.text.source_file import Source

TRAINING_CALLS = ("fit", "fit_generator", "train_on_batch", "GradientTape", "minimize")


def takes_training_steps(source: Source) -> bool:
    """Whether the file calls something that takes training steps."""
    return bool(call_index.index_of(source).called(*TRAINING_CALLS))


def is_compiled_loss(source: Source, name: str) -> bool:
    """Whether ``compile()`` receives the function of this name as its loss."""
    given = (node_lookup.argument_value(c, "loss", 1) for c in call_index.index_of(source).called("compile"))
    return any(isinstance(one, ast.Name) and one.id == name for one in given)
