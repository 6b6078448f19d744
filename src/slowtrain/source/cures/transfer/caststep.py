"""Bytes that a ``map`` makes floats of, handed over as bytes: the step of the script's own loop casts them instead."""

from __future__ import annotations

import ast

from slowtrain.model import Edit
from slowtrain.source import Source, edits
from slowtrain.source.cures.transfer import narrowed
from slowtrain.source.reading import finding, index, scopes, values

THROUGH = ("enumerate", "iter")
KERAS = ("fit", "evaluate", "predict")  # would be given bytes as well


def cast_in_step(source: Source, line: int) -> list[Edit]:
    """The ``map`` at ``line`` left out, its cast as the first line of the ``tf.function`` that takes the batches.

    Only where each loop over the data set hands its batches to that function alone, and nothing else reads them.
    """
    calls = [c for c in finding.calls(source, line, "map") if isinstance(c.func, ast.Attribute)]
    scale = narrowed.scale_of(source, calls[0]) if len(calls) == 1 else None
    if scale is None or index.of(source).called(*KERAS):
        return []
    names: set[str] = set()
    loops = [n for n in index.nodes(source, ast.For) if isinstance(n, ast.For)]
    mine = [n for n in loops if narrowed.cast_on_the_way(source, _data(n), calls[0], names) is calls[0]]
    given = [_data(n) for n in mine]
    steps = [_step(source, loop) for loop in mine]
    step = steps[0] if steps else None
    if step is None or any(s is not step for s in steps) or narrowed.used_otherwise(source, given, names):
        return []
    if len(index.of(source).called(step.name)) != len(mine) or not _compiled(source, step):
        return []
    name = scopes.parameters(step)[0]
    tf, also = edits.imported(source, "tensorflow", "tf")
    cast = f"{name} = {tf}.cast({name}, {tf}.float32){_times(scale)}"
    return [*also, edits.before(source, _first(step), cast), narrowed.without_call(source, calls[0])]


def _data(loop: ast.For) -> ast.expr:
    """What a loop goes through, ``enumerate`` taken off."""
    given = loop.iter
    while isinstance(given, ast.Call) and finding.called(given) in THROUGH and len(given.args) >= 1:
        given = given.args[0]
    return given


def _step(source: Source, loop: ast.For) -> ast.FunctionDef | None:
    """The function of the file that is given the first part of the loop's element first, if nothing else reads it."""
    target = loop.target
    counted = isinstance(loop.iter, ast.Call) and finding.called(loop.iter) == "enumerate"
    if counted:
        target = target.elts[1] if isinstance(target, ast.Tuple) and len(target.elts) == 2 else target
    first = target.elts[0] if isinstance(target, ast.Tuple) else target
    if not isinstance(first, ast.Name) or (counted and target is loop.target):
        return None
    reads = [n for n in values.loads(source, first.id) if edits.start(n) > edits.start(loop)]
    call = finding.parents(source).get(reads[0]) if len(reads) == 1 else None
    if not isinstance(call, ast.Call) or call.args[:1] != reads or not isinstance(call.func, ast.Name):
        return None
    return finding.defined(source, call.func.id, call) if loop in scopes.loops(source, call) else None


def _compiled(source: Source, step: ast.FunctionDef) -> bool:
    """Whether it is a ``tf.function`` without a signature, and binds its first parameter nowhere."""
    names = scopes.parameters(step)
    of = [d.func if isinstance(d, ast.Call) else d for d in step.decorator_list]
    signed = any(finding.keyword(d, "input_signature", 1) for d in step.decorator_list if isinstance(d, ast.Call))
    graph = [values.qualified(source, d) for d in of] == ["tensorflow.function"]
    return graph and not signed and bool(names) and names[0] not in scopes.bound(step.body)


def _first(step: ast.FunctionDef) -> ast.stmt:
    """The first statement behind the docstring."""
    head = step.body[0]
    text = isinstance(head, ast.Expr) and isinstance(head.value, ast.Constant) and isinstance(head.value.value, str)
    return step.body[1] if text and len(step.body) > 1 else head


def _times(scale: str) -> str:
    """``1 / 255.0`` as ``/ 255.0``, the operation that the map had; nothing for 1."""
    if scale == "1.0":
        return ""
    return f" / {scale.removeprefix('1 / ')}" if scale.startswith("1 / ") else f" * {scale}"
