"""Parts of a program that a reading of its text, or a run that ends early, does not reach."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.source import FUNCTIONS, Source, trees
from slowtrain.source.reading import index

RUNNING = ("exec", "eval")
# Keywords of Keras's fit only; a scaler's or an estimator's fit trains no network.
KERAS = frozenset({"epochs", "initial_epoch", "steps_per_epoch", "validation_data", "batch_size", "callbacks"})


def run_as_text(source: Source) -> Iterator[tuple[int, str]]:
    """Line and name of each call of Python's ``exec`` and ``eval``."""
    calls = [c for c in index.of(source).called(*RUNNING) if isinstance(c.func, ast.Name)]
    own = set(_named(source)) if calls else set[str]()
    for call in calls:
        if isinstance(call.func, ast.Name) and call.func.id not in own:
            yield call.lineno, call.func.id


def _named(source: Source) -> Iterator[str]:
    """Names that the file itself binds: a user's function called ``eval`` executes no text."""
    for node in trees.walk(source.tree):
        if isinstance(node, FUNCTIONS):
            yield node.name
        elif isinstance(node, ast.alias):
            yield node.asname or node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def trainings(source: Source) -> list[ast.Call]:
    """Calls of Keras's ``fit``."""
    return [c for c in index.of(source).called("fit") if any(k.arg in KERAS for k in c.keywords)]
