"""What a step does for one part after another and one op does for all: rows, pairs, heads."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.model import Edit
from slowtrain.source import FUNCTIONS, Source, trees
from slowtrain.source.cures.compute import mapped, mapped_functions
from slowtrain.source.reading import finding, following, index, objects, scopes, values, visible

PARTS = 20  # each with ops of its own: with fewer, starting them takes less than is worth a word


def rows(source: Source) -> Iterator[tuple[ast.Call, tuple[Edit, ...]]]:
    """``tf.map_fn`` in a step, over a function that works on all rows at once as well; with the edits."""
    for call in index.of(source).called("map_fn"):
        if values.qualified(source, call.func) != "tensorflow.map_fn" or not in_step(source, call):
            continue
        changed = tuple(mapped_functions.at_once(source, call.lineno))
        if changed:
            yield call, changed


def loops(source: Source) -> Iterator[tuple[ast.For, int, tuple[Edit, ...]]]:
    """Loops of a step whose turns do not need each other; how many there are, and the edits."""
    stepping = "GradientTape" in source.text or "def call(" in source.text
    if not stepping or "range(" not in source.text or not values.reaches(source, "tensorflow."):
        return
    for loop in index.nodes(source, ast.For):
        if not isinstance(loop, ast.For) or not isinstance(loop.iter, ast.Call) or finding.called(loop.iter) != "range":
            continue
        turns = visible.turns(source, loop)
        if turns is None or turns < PARTS or not in_step(source, loop):
            continue
        changed = tuple(mapped.at_once(source, loop.lineno))
        if changed:
            yield loop, turns, changed


def branches(source: Source) -> Iterator[tuple[ast.For, int]]:
    """Loops that put layers alike on one and the same input, for each of many outputs."""
    if ")(" not in source.text or "for " not in source.text or not values.reaches(source, "keras.layers."):
        return
    if not visible.trains(source):
        return
    for loop in index.nodes(source, ast.For):
        if not isinstance(loop, ast.For) or len(loop.body) > 6 or any(isinstance(s, ast.For) for s in loop.body):
            continue
        layers = [n for one in loop.body for n in trees.walk(one) if isinstance(n, ast.Call)]
        put = [n for n in layers if isinstance(n.func, ast.Call) and _layer(source, n.func)]
        turns = visible.turns(source, loop) if put else None
        if turns is not None and turns >= PARTS and _alike(loop, put) and _kept(loop):
            yield loop, turns


def _layer(source: Source, call: ast.Call) -> bool:
    return values.qualified(source, call.func).startswith("keras.layers.")


def _alike(loop: ast.For, put: list[ast.Call]) -> bool:
    """Whether the first layer's input stays, and no layer's size depends on the turn: names of layers may."""
    own = scopes.bound(loop)
    inputs = [a for call in put for a in call.args]
    if not any(isinstance(a, ast.Name) and a.id not in own for a in inputs):
        return False
    makers = [call.func for call in put if isinstance(call.func, ast.Call)]
    sizes = [a for m in makers for a in (*m.args, *(k.value for k in m.keywords if k.arg != "name"))]
    return not scopes.read(sizes) & own


def _kept(loop: ast.For) -> bool:
    """Whether what each turn makes is an output of its own: under a key, or in a list."""
    stores = any(isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store) for n in trees.walk(loop))
    return stores or any(isinstance(n, ast.Call) and finding.called(n) == "append" for n in trees.walk(loop))


def in_step(source: Source, node: ast.AST) -> bool:
    """Whether ``node`` stands in what a training step runs, as far as calls in the file tell."""
    function = finding.function(source, node)
    if function is None or not visible.trains(source):
        return False
    tapes = index.of(source).called("GradientTape")
    todo = [f for tape in tapes if (f := finding.function(source, tape)) is not None]
    for kind in index.nodes(source, ast.ClassDef):
        made = objects.method(kind, "call") if isinstance(kind, ast.ClassDef) else None
        if made is not None and isinstance(kind, ast.ClassDef) and index.of(source).called(kind.name):
            todo.append(made)
    seen: set[ast.AST] = set()
    while todo:
        one = todo.pop()
        if one is function:
            return True
        if one in seen:
            continue
        seen.add(one)
        calls = (n for s in one.body for n in trees.walk(s) if isinstance(n, ast.Call))
        todo += [f for call in calls if (f := following.function(source, call)) is not None]
        todo += [n for s in one.body for n in trees.walk(s) if isinstance(n, FUNCTIONS)]
    return False
