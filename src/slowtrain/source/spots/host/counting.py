"""Steps of an epoch that a script counts in samples, and data sets that repeat themselves once more."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from slowtrain.source import Source, trees
from slowtrain.source.cures.host import kerascalls
from slowtrain.source.reading import arrays, finding, following, index, kinds, objects, scopes, sizes, values, visible
from slowtrain.source.reading.input import chains

EPOCHS = re.compile(r"epoch", re.IGNORECASE)
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
    """``len(x)`` and ``x.shape[0]`` of an array, through names, properties and an object's own length."""
    if not depth:
        return False
    if isinstance(node, ast.Name):
        value = values.assigned(source, node)
        return value is not None and _samples(source, value, depth - 1)
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
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
        return isinstance(node.slice, ast.Constant) and node.slice.value == 0
    return False


def _taken_apart(data: ast.expr | None) -> bool:
    """Whether batches become single samples again."""
    return isinstance(data, ast.Call) and any(finding.called(c) == "unbatch" for c in finding.chain(data))


def repeated_twice(source: Source) -> Iterator[tuple[ast.Call, str]]:
    """``repeat(EPOCHS)`` of a data set that ``fit`` goes through for ``EPOCHS`` again."""
    fits = [c for c in index.of(source).called("fit") if _again(source, c)]
    for call in index.of(source).called("repeat") if fits else ():
        given = finding.keyword(call, "count", 0)
        names = _named(given)
        if given is None or not isinstance(call.func, ast.Attribute) or not names:
            continue
        for fit in fits:
            epochs = finding.keyword(fit, "epochs", 3)
            if names & _named(epochs) and _reaches(source, call, fit):
                yield call, f"the data set repeats itself {ast.unparse(given)} times in each epoch of fit()"
                break


def _again(source: Source, fit: ast.Call) -> bool:
    epochs, steps = finding.keyword(fit, "epochs", 3), finding.keyword(fit, "steps_per_epoch")
    return epochs is not None and visible.number(source, epochs) != 1 and steps is None


def _named(node: ast.expr | None) -> set[str]:
    """Names in an expression that say that they count epochs."""
    parts = list(trees.walk(node)) if node is not None else []
    words = {n.id if isinstance(n, ast.Name) else n.attr for n in parts if isinstance(n, (ast.Name, ast.Attribute))}
    keys = [n.slice.value for n in parts if isinstance(n, ast.Subscript) and isinstance(n.slice, ast.Constant)]
    return {w for w in words | {k for k in keys if isinstance(k, str)} if EPOCHS.search(w)}


def _reaches(source: Source, repeat: ast.Call, fit: ast.Call) -> bool:
    """Whether the data set that is repeated is the one that ``fit`` is given."""
    given = finding.keyword(fit, "x", 0)
    for _ in range(4):
        if not isinstance(given, ast.Name):
            break
        given = chains.assigned(source, given, fit)
    if not isinstance(given, ast.Call):
        return False
    if repeat in chains.upstream(source, given).calls:
        return True
    root = list(finding.chain(given))[-1]
    made = finding.defined(source, root.func.id, root) if isinstance(root.func, ast.Name) else None
    return made is not None and finding.function(source, repeat) is made and not _left_out(source, repeat, made, root)


def _left_out(source: Source, repeat: ast.Call, made: ast.FunctionDef, call: ast.Call) -> bool:
    """Whether it stands under ``if training:``, and this call does not give True for that."""
    test = finding.around(source, repeat, ast.If, ast.IfExp)
    if test is None:
        return False
    asked = test.test if isinstance(test, (ast.If, ast.IfExp)) else None
    given = kinds.given_in(made, call, asked.id) if isinstance(asked, ast.Name) else None
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
