"""Parts of a program that a reading of its text, or a run that ends early, does not reach."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.script.navigation import call_index
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import FUNCTION_NODES, Source

EXECUTING_BUILTINS = ("exec", "eval")
# Keywords of Keras's fit only; a scaler's or an estimator's fit trains no network.
KERAS_FIT_KEYWORDS = frozenset(
    {"epochs", "initial_epoch", "steps_per_epoch", "validation_data", "batch_size", "callbacks"}
)


def executed_texts(source: Source) -> Iterator[tuple[int, str]]:
    """Line and name of each call of Python's ``exec`` and ``eval``."""
    calls = [c for c in call_index.index_of(source).called(*EXECUTING_BUILTINS) if isinstance(c.func, ast.Name)]
    own = set(_defined_names(source)) if calls else set[str]()
    for call in calls:
        if isinstance(call.func, ast.Name) and call.func.id not in own:
            yield call.lineno, call.func.id


def _defined_names(source: Source) -> Iterator[str]:
    """Names that the file itself binds: a user's function called ``eval`` executes no text."""
    for node in syntax_tree.walk(source.tree):
        if isinstance(node, FUNCTION_NODES):
            yield node.name
        elif isinstance(node, ast.alias):
            yield node.asname or node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def keras_fit_calls(source: Source) -> list[ast.Call]:
    """Calls of Keras's ``fit``."""
    return [
        c for c in call_index.index_of(source).called("fit") if any(k.arg in KERAS_FIT_KEYWORDS for k in c.keywords)
    ]
