"""The pipelines from which training takes its batches: given to ``fit``, or iterated by a training loop."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.source import Source, kept, trees
from slowtrain.source.reading import elsewhere, finding, index
from slowtrain.source.reading.input import chains

WORKING = frozenset("map interleave flat_map filter from_generator".split())
STEPS = frozenset({"GradientTape", "train_on_batch"})
PASSED = frozenset({"enumerate", "iter", "tqdm", "experimental_distribute_dataset"})


@kept(4)
def trained_on(source: Source) -> tuple[chains.Flow, ...]:
    """The pipelines whose operations are known, once per place that takes from them."""
    return tuple(_trained_on(source))


def _trained_on(source: Source) -> Iterator[chains.Flow]:
    if not chains.may_make(source) and not elsewhere.leads(source):
        return
    for call in index.of(source).called("fit"):
        given = finding.keyword(call, "x", 0)
        yield from flow_of(source, given, call)
    if not any(name in source.text for name in STEPS):  # saves following the loops of most files
        return
    for loop in index.nodes(source, ast.For):
        assert isinstance(loop, ast.For)
        for flow in flow_of(source, loop.iter, loop):
            if any(_steps(part) for one in loop.body for part in source.called(one)):
                yield flow


def _steps(part: ast.AST) -> bool:
    return any(isinstance(n, ast.Call) and finding.called(n) in STEPS for n in trees.walk(part))


def flow_of(source: Source, given: ast.expr | None, place: ast.AST) -> Iterator[chains.Flow]:
    """The pipeline behind an expression, through names and ``enumerate``; none if its source is unknown."""
    for _ in range(chains.DEEPEST):
        if isinstance(given, ast.Name):
            given = chains.assigned(source, given, place) or chains.argument(source, given)
            place = given if given is not None else place
        elif isinstance(given, ast.Call) and finding.called(given) in PASSED and given.args:
            given = given.args[0]
        else:
            break
    if isinstance(given, ast.Call):
        flow = chains.upstream(source, given)
        if flow.known:
            yield flow
