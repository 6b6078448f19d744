"""Steps of an epoch that a script counts in samples, and data sets that repeat themselves once more."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from slowtrain.source import Source, trees
from slowtrain.source.cures.host import kerascalls
from slowtrain.source.reading import (
    arrays,
    finding,
    following,
    index,
    kinds,
    objects,
    scopes,
    settings,
    sizes,
    values,
    visible,
)
from slowtrain.source.reading.input import chains, consumed

EPOCHS = re.compile(r"epoch", re.IGNORECASE)
SAMPLES = re.compile(r"(?:^|_)(?:rows|samples|examples|images|records)$", re.IGNORECASE)
ON_DATA = frozenset({"batch", "padded_batch", "map", "prefetch", "shuffle"})  # arrays have a repeat() as well
COUNTING = frozenset({"range", "trange"})
DEPTH = 4  # properties and methods on the way to what is counted


def in_samples(source: Source) -> Iterator[tuple[ast.Call, ast.expr, str]]:
    """``steps_per_epoch`` and ``validation_steps`` that are a number of samples."""
    for call in index.of(source).called("fit", "fit_generator"):
        data = finding.keyword(call, "x", 0) or finding.keyword(call, "generator", 0)
        yield from _counted(source, call, "steps_per_epoch", data)
        held = finding.keyword(call, "validation_data")
        known = sizes.value(source, held)
        if isinstance(known, arrays.Data) and known.endless:
            yield from _counted(source, call, "validation_steps", held)


def _counted(
    source: Source, call: ast.Call, name: str, data: ast.expr | None
) -> Iterator[tuple[ast.Call, ast.expr, str]]:
    given = finding.keyword(call, name)
    if given is None or data is None or not _samples(source, given):
        return
    known = sizes.value(source, data)
    size = kerascalls.batch_size(source, data)
    if size is None and isinstance(known, arrays.Data) and known.batch is not None:
        size = str(known.batch)
    if size is not None and size != "1" and not _taken_apart(data):
        yield call, given, f"{name}={ast.unparse(given)} counts samples; a step takes {size} of them"


def _samples(source: Source, node: ast.expr, depth: int = DEPTH) -> bool:
    """``len(x)`` and ``x.shape[0]`` of an array, through names, properties and an object's own length.

    Also what comes from elsewhere, or is written out, under a name that says so: ``stats["train_rows"]``.
    """
    if not depth:
        return False
    if isinstance(node, ast.Name):
        value = values.assigned(source, node)
        if value is None or isinstance(value, ast.Constant):
            return SAMPLES.search(node.id) is not None
        return _samples(source, value, depth - 1)
    if isinstance(node, ast.Attribute):
        given = _member(source, node)
        return given is not None and _samples(source, given, depth - 1)
    if isinstance(node, ast.Call) and finding.called(node) == "len" and len(node.args) == 1:
        of = node.args[0]
        thing = sizes.value(source, of)
        if isinstance(thing, sizes.Thing):
            own = objects.method(thing.kind, "__len__")
            given_back = following.returned(own) if own is not None else []
            return len(given_back) == 1 and _samples(source, given_back[0], depth - 1)
        if isinstance(of, ast.Attribute) and _loaded(source, of):
            return True
        return visible.shape(source, of) is not None or kinds.of(source, of) == kinds.ARRAY
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        key = node.slice.value
        if isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
            return key == 0
        return isinstance(key, str) and SAMPLES.search(key) is not None
    return False


def divided(source: Source, given: ast.expr | None) -> bool:
    """Whether a number is written as a quotient, here or where its name gets it."""
    written = settings.written(source, given) if given is not None else None
    inside = [n for one in (given, written) if one is not None for n in trees.walk(one)]
    return any(isinstance(n, ast.BinOp) and isinstance(n.op, (ast.FloorDiv, ast.Div)) for n in inside)


def other_batch(steps: int, rows: int, batch: int) -> int:
    """The smaller size of batches of which so many steps make the data; 0 where there is none."""
    other = rows // steps if 0 < steps < rows else 0
    return other if 1 < other <= batch // 2 and rows // other == steps else 0


def _taken_apart(data: ast.expr | None) -> bool:
    """Whether batches become single samples again."""
    return isinstance(data, ast.Call) and any(finding.called(c) == "unbatch" for c in finding.chain(data))


def repeated_twice(source: Source) -> Iterator[tuple[ast.Call, str]]:
    """``repeat(n)`` of a data set that goes through as many epochs again: those of ``fit``, or of a loop around it."""
    repeats = [c for c in index.of(source).called("repeat") if isinstance(c.func, ast.Attribute)]
    passes = list(_passes(source)) if repeats else []
    for call in repeats:
        count = finding.keyword(call, "count", 0)
        for data, place, epochs in passes if count is not None else ():
            if count is not None and _same(source, count, epochs) and _reaches(source, call, data, place):
                what = "of fit()" if isinstance(place, ast.Call) else "of the loop around"
                yield call, f"the data set repeats itself {ast.unparse(count)} times in each epoch {what}"
                break


def _passes(source: Source) -> Iterator[tuple[ast.expr, ast.Call | ast.For, ast.expr]]:
    """What is gone through to its end again and again, where, and the expression that says how often."""
    for fit in index.of(source).called("fit"):
        epochs, data = finding.keyword(fit, "epochs", 3), finding.keyword(fit, "x", 0)
        if epochs is None or visible.number(source, epochs) == 1:
            continue
        if data is not None and finding.keyword(fit, "steps_per_epoch") is None:
            yield data, fit, epochs
        held = finding.keyword(fit, "validation_data")
        if held is not None and finding.keyword(fit, "validation_steps") is None:
            yield held, fit, epochs
    for loop in index.nodes(source, ast.For):
        outer = scopes.loops(source, loop)
        over = outer[0].iter if outer and isinstance(outer[0], ast.For) else None
        if not isinstance(loop, ast.For) or not isinstance(over, ast.Call) or finding.called(over) not in COUNTING:
            continue
        if over.args and not any(isinstance(n, (ast.Break, ast.Return)) for s in loop.body for n in scopes.own(s)):
            yield loop.iter, loop, over.args[-1 if len(over.args) < 3 else 1]


def _same(source: Source, count: ast.expr, epochs: ast.expr) -> bool:
    """Whether both are the same number of rounds: of one name that says so, of one place, or as the text has it."""
    if _named(count) & _named(epochs):
        return True
    if isinstance(count, ast.Constant) or isinstance(epochs, ast.Constant):
        first, second = visible.number(source, count), visible.number(source, epochs)
        return first is not None and first > 1 and first == second
    written = settings.origin(source, count), settings.origin(source, epochs)
    if written[0] is not None and written[1] is not None and written[0].node is written[1].node:
        return visible.number(source, count) != 1 and not isinstance(written[0].node, ast.Call)
    named = isinstance(count, ast.Name) and isinstance(epochs, ast.Name) and count.id == epochs.id
    if named and values.scope(source, count, count.id) is values.scope(source, epochs, count.id):  # type: ignore[attr-defined]
        return visible.number(source, count) != 1
    known = visible.number(source, count)
    return known is not None and known > 1 and known == visible.number(source, epochs)


def _named(node: ast.expr | None) -> set[str]:
    """Names in an expression that say that they count epochs."""
    parts = list(trees.walk(node)) if node is not None else []
    words = {n.id if isinstance(n, ast.Name) else n.attr for n in parts if isinstance(n, (ast.Name, ast.Attribute))}
    keys = [n.slice.value for n in parts if isinstance(n, ast.Subscript) and isinstance(n.slice, ast.Constant)]
    return {w for w in words | {k for k in keys if isinstance(k, str)} if EPOCHS.search(w)}


def _reaches(source: Source, repeat: ast.Call, data: ast.expr | None, place: ast.AST) -> bool:
    """Whether the data set that is repeated is the one that is gone through at ``place``."""
    for _ in range(DEPTH):
        if isinstance(data, ast.Name):
            data = chains.assigned(source, data, place) or chains.argument(source, data)
            place = data if data is not None else place
        elif isinstance(data, ast.Attribute):
            data = settings.written(source, data)
        elif isinstance(data, ast.Call) and finding.called(data) in consumed.PASSED and data.args:
            data = data.args[0]
    if not isinstance(data, ast.Call):
        return False
    flow = chains.upstream(source, data)
    if not flow.known and not ON_DATA & set(flow.names):
        return False
    made = _entered(source, repeat, data)
    return not _left_out(source, repeat, *made) if made is not None else repeat in flow.calls


def _entered(source: Source, repeat: ast.Call, data: ast.Call) -> tuple[ast.FunctionDef, ast.Call] | None:
    """The function in which ``repeat`` stands, and its call at the root of the chain ``data``."""
    root = list(finding.chain(data))[-1]
    for call in (data, root):
        made = finding.defined(source, finding.called(call), call)
        if made is not None and finding.function(source, repeat) is made:
            return made, call
    return None


def _left_out(source: Source, repeat: ast.Call, made: ast.FunctionDef, call: ast.Call) -> bool:
    """Whether it stands under ``if training:``, and this call does not give True for that."""
    test = finding.around(source, repeat, ast.If, ast.IfExp)
    if test is None:
        return False
    asked = test.test if isinstance(test, (ast.If, ast.IfExp)) else None
    given = kinds.given_in(made, call, asked.id) if isinstance(asked, ast.Name) else None
    given = given or (objects.defaults(made).get(asked.id) if isinstance(asked, ast.Name) else None)
    return not (isinstance(given, ast.Constant) and given.value is True)


def _member(source: Source, node: ast.Attribute) -> ast.expr | None:
    """What a property gives back."""
    thing = sizes.value(source, node.value)
    made = objects.method(thing.kind, node.attr) if isinstance(thing, sizes.Thing) else None
    marks = [scopes.dotted(d).rpartition(".")[2] for d in made.decorator_list] if made is not None else []
    given = following.returned(made) if made is not None and marks in (["property"], ["cached_property"]) else []
    return given[0] if len(given) == 1 else None


def _loaded(source: Source, node: ast.Attribute) -> bool:
    """Whether an attribute is once assigned, an array that NumPy makes or loads."""
    stored = objects.stores(source, node.attr)
    holder = finding.parents(source).get(stored[0]) if len(stored) == 1 else None
    value = holder.value if isinstance(holder, ast.Assign) and holder.targets == stored else None
    return value is not None and kinds.of(source, value) == kinds.ARRAY
