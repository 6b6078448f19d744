"""Edits that let several threads make the batches of a ``PyDataset``.

Keras makes them sequentially unless ``workers`` is set. The order of the batches stays the same.
"""

from __future__ import annotations

import ast

from slowtrain.model import Edit
from slowtrain.script.fixes.input import generator_edits, hoisted_conversions, known_arrays
from slowtrain.script.navigation import node_lookup, scope_names
from slowtrain.script.properties import repeatable_functions
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import RANDOM_CALLS, Source

WORKER_COUNT = 4  # threads share the interpreter lock, so that more threads only help if they wait
WORKER_ARGUMENTS = ("workers", "use_multiprocessing")


def add_workers(source: Source, line: int) -> list[Edit]:
    """Set workers for the sequence whose ``__getitem__`` calls code at ``line``, if it draws no random numbers."""
    return _set_workers(source, line, draws=False)


def add_workers_to_drawing(source: Source, line: int) -> list[Edit]:
    """As :func:`same`, if it draws random numbers. The draws are assigned to other batches."""
    return _set_workers(source, line, draws=True)


def _set_workers(source: Source, line: int, *, draws: bool) -> list[Edit]:
    found = [o for o in generator_edits.sequence_classes(source) if _reaches_line(source, o, line)]
    owner = found[0] if len(found) == 1 else None
    getting = _method_named(owner, "__getitem__")
    if owner is None or getting is None or getting.decorator_list or _sets_workers(source):
        return []
    reached = source.called(getting)
    if any(repeatable_functions.draws_or_mutates(source, f) for f in reached) is not draws or not all(
        _is_thread_safe(source, f) for f in reached
    ):
        return []
    return _worker_argument(source, owner)


def _sets_workers(source: Source) -> bool:
    """Whether the file sets the number of workers already."""
    return any(isinstance(n, ast.keyword) and n.arg in WORKER_ARGUMENTS for n in syntax_tree.walk(source.tree))


def _method_named(owner: ast.ClassDef | None, name: str) -> ast.FunctionDef | None:
    body = owner.body if owner is not None else []
    return next((n for n in body if isinstance(n, ast.FunctionDef) and n.name == name), None)


def _reaches_line(source: Source, owner: ast.ClassDef, line: int) -> bool:
    getting = _method_named(owner, "__getitem__")
    reached = source.called(getting) if getting is not None else []
    return any(getattr(f, "lineno", 0) <= line <= (getattr(f, "end_lineno", 0) or 0) for f in reached)


def _is_thread_safe(source: Source, function: ast.AST) -> bool:
    """Whether concurrent calls of ``function`` are safe: it changes no shared state."""
    if isinstance(function, ast.FunctionDef) and not generator_edits.changes_only_own_results(function):
        return False
    inner = list(syntax_tree.walk(function))
    if any(isinstance(n, (ast.Global, ast.Nonlocal, ast.Yield)) for n in inner):
        return False
    if any(isinstance(n, ast.Attribute) and not isinstance(n.ctx, ast.Load) for n in inner):
        return False
    return all(_only_computes(source, n) for n in inner if isinstance(n, ast.Call))


def _only_computes(source: Source, call: ast.Call) -> bool:
    name = scope_names.resolved_name(source, call.func)
    if name.startswith(repeatable_functions.DETERMINISTIC_LIBRARIES):
        return True
    last = node_lookup.called_name(call)
    own = node_lookup.function_named(source, last) is not None and (
        isinstance(call.func, ast.Name) or name.startswith("self.")
    )
    known = hoisted_conversions.PURE_METHODS | RANDOM_CALLS | known_arrays.DRAWING_METHODS | {"append", "extend"}
    if own or not isinstance(call.func, ast.Attribute):
        return own or last in repeatable_functions.DETERMINISTIC_BUILTINS
    return last in known


def _worker_argument(source: Source, owner: ast.ClassDef) -> list[Edit]:
    """Set the argument in the call of ``super().__init__(**more)``."""
    starting = _method_named(owner, "__init__")
    inner = syntax_tree.walk(starting) if starting is not None else ()
    handed = [n for n in inner if isinstance(n, ast.Call) and _is_super_init(n.func)]
    starred = [k for call in handed for k in call.keywords if k.arg is None]
    if len(handed) != 1 or handed[0].args or len(starred) != 1:
        return []
    return [edits.insert_text(source, edits.node_start(starred[0]), f"workers={WORKER_COUNT}, ")]


def _is_super_init(function: ast.expr) -> bool:
    """Whether it is ``super().__init__``."""
    above = function.value if isinstance(function, ast.Attribute) and function.attr == "__init__" else None
    return isinstance(above, ast.Call) and node_lookup.called_name(above) == "super"
