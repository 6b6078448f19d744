"""The garbage collector called for each step, in the step's loop or in what the loop calls and enters."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.source import Source
from slowtrain.source.cures.host import kerascalls
from slowtrain.source.reading import finding, following, index, sizes, values, visible
from slowtrain.source.spots.host import callbacks, fits

OFTEN = 10  # steps between two collections: one takes as long as several steps of most models
ENTERED = ("__enter__", "__exit__")


def collected(source: Source) -> Iterator[ast.Call]:
    """``gc.collect()`` in every turn of a loop that takes a step, or in a hook of every batch."""
    for call in index.of(source).called("collect"):
        statement = finding.statement(source, call)
        if values.qualified(source, call.func) != "gc.collect" or not isinstance(statement, ast.Expr):
            continue
        function = finding.function(source, statement)
        at: ast.stmt = statement
        above = finding.parents(source).get(statement)
        if isinstance(above, ast.If) and statement in above.body and _now_and_then(source, above):
            at = above
        if function is not None and function.name in ENTERED:
            every = finding.parents(source).get(at) is function and _entered(source, function)
        elif function is not None and function.name in callbacks.HOOKS:
            every = at in function.body
        else:
            every = _beside(source, at)
        if every:
            yield call


def _now_and_then(source: Source, test: ast.If) -> bool:
    """``if step % 2 == 0:`` of a small number."""
    modulus = kerascalls.divided_by(test)
    every = visible.number(source, modulus) if modulus is not None else None
    return every is not None and 1 <= every <= OFTEN


def _beside(source: Source, at: ast.stmt) -> bool:
    """Whether a loop that takes a step by another statement runs ``at`` in each turn, itself or by a call."""
    for loop, inside in following.repeated_by(source, at):
        others = [s for s in loop.body if s is inside or not isinstance(s, (ast.For, ast.While, ast.If))]
        if fits.takes_step(source, others):
            return True
    return False


def _entered(source: Source, function: ast.AST) -> bool:
    """Whether each turn of a loop enters an object of the class around its step."""
    kind = finding.parents(source).get(function)
    for block in index.nodes(source, ast.With):
        if not isinstance(block, ast.With) or not isinstance(kind, ast.ClassDef):
            continue
        held = [sizes.value(source, item.context_expr) for item in block.items]
        mine = any(isinstance(thing, sizes.Thing) and thing.kind is kind for thing in held)
        if mine and any(True for _ in following.repeated_by(source, block)) and fits.takes_step(source, block.body):
            return True
    return False
