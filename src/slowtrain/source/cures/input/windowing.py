"""Sliding windows that ``window().flat_map()`` makes, a data set for each, gathered from the table by index instead."""

from __future__ import annotations

import ast

from slowtrain.model import Edit
from slowtrain.source import Source, edits
from slowtrain.source.reading import finding, scopes
from slowtrain.source.reading.input import chains

NAME = "windows_of"
GATHERED = '''
def {name}(table, size, shift):
    """Windows of ``size`` rows, ``shift`` apart, in order; many are gathered at once."""
    with {tf}.device("CPU"):
        table = {tf}.convert_to_tensor(table)
        rows = {tf}.range(size, dtype={tf}.int64)
    starts = {tf}.data.Dataset.range(0, len(table) - size + 1, shift).batch(64)
    return starts.map(lambda begun: {tf}.gather(table, begun[:, None] + rows)).unbatch()

'''


def gathered(source: Source, line: int) -> list[Edit]:
    """``from_tensor_slices(x).window(n, s, drop_remainder=True).flat_map(batch of n)`` at ``line`` by index.

    The same windows in the same order, bit by bit.
    """
    found = [c for c in finding.calls(source, line, "flat_map", "window") if chains.operates(c)]
    several = chains.flows(source, found[0]) if found else []
    if len(several) != 1 or not several[0].whole or NAME in source.text:
        return []
    flow = several[0]
    maker, *rest = flow.calls[:3]
    if [finding.called(c) for c in flow.calls[:3]] != ["from_tensor_slices", "window", "flat_map"]:
        return []
    window, flat = rest
    table = finding.keyword(maker, "tensors", 0)
    sizes = _sizes(window)
    if table is None or sizes is None or len(maker.args) + len(maker.keywords) != 1:
        return []
    size, shift = sizes
    if isinstance(table, (ast.Tuple, ast.Dict, ast.List)) or not _batches(source, flat, size):
        return []
    if not chains.movable(source, flow.calls[:3]):
        return []
    top: ast.AST | None = maker
    above = finding.parents(source)
    while top is not None and not isinstance(above.get(top), ast.Module):
        top = above.get(top)
    if not isinstance(top, ast.stmt):
        return []
    tf, also = edits.imported(source, "tensorflow", "tf")
    given = ", ".join(edits.written(source, n) for n in (table, size, shift))
    made = edits.replace(source, maker, f"{NAME}({given})")
    gone = _without(source, (window, flat))
    return [*also, edits.before(source, top, GATHERED.format(name=NAME, tf=tf)), made, *gone]


def _sizes(window: ast.Call) -> tuple[ast.expr, ast.expr] | None:
    """The length of a window and the distance to the next, of whole windows of neighbours alone."""
    size, shift = finding.keyword(window, "size", 0), finding.keyword(window, "shift", 1)
    stride, drop = finding.keyword(window, "stride", 2), finding.keyword(window, "drop_remainder", 3)
    near = stride is None or (isinstance(stride, ast.Constant) and stride.value == 1)
    whole = isinstance(drop, ast.Constant) and drop.value is True
    if size is None or not near or not whole:
        return None
    unset = shift is None or (isinstance(shift, ast.Constant) and shift.value is None)
    return size, size if unset or shift is None else shift


def _batches(source: Source, flat: ast.Call, size: ast.expr) -> bool:
    """Whether each window becomes one batch of its rows: ``lambda w: w.batch(n)``, or a function that returns that."""
    given = finding.keyword(flat, "map_func", 0)
    if len(flat.args) + len(flat.keywords) != 1:
        return False
    function: ast.AST | None = given
    if isinstance(given, ast.Name):
        function = finding.defined(source, given.id, flat)
    parameters = scopes.parameters(function) if function is not None else []
    body: ast.AST | None = None
    if isinstance(function, ast.Lambda):
        body = function.body
    elif isinstance(function, ast.FunctionDef) and isinstance(function.body[-1], ast.Return):
        told = [s for s in function.body[:-1] if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
        body = function.body[-1].value if not told and not function.decorator_list else None
    if not isinstance(body, ast.Call) or finding.called(body) != "batch" or len(parameters) != 1:
        return False
    owner = body.func.value if isinstance(body.func, ast.Attribute) else None
    length = finding.keyword(body, "batch_size", 0)
    named = {k.arg for k in body.keywords} <= {"batch_size", "drop_remainder"} and len(body.args) <= 2
    same = length is not None and ast.dump(length) == ast.dump(size)
    return isinstance(owner, ast.Name) and owner.id == parameters[0] and named and same


def _without(source: Source, calls: tuple[ast.Call, ...]) -> list[Edit]:
    """The chain without ``calls``; without the whole statement where ``ds = ds`` would be left of it."""
    done: list[Edit] = []
    for call in calls:
        statement = finding.statement(source, call)
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
        same = isinstance(owner, ast.Name) and isinstance(target, ast.Name) and owner.id == target.id
        row = source.text.split("\n")[call.lineno - 1]
        if isinstance(statement, ast.Assign) and statement.value is call and same and ";" not in row:
            done.append(edits.without(source, statement))
        elif owner is not None:
            done.append(Edit(source.file, edits.end(owner), edits.end(call), ""))
    return done
