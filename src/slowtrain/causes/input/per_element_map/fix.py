"""Gathers sliding windows by index, or maps over whole batches."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from slowtrain.causes.input.per_element_map import NestedWindows, TinyMaps
from slowtrain.model import Edit, Effect, Prescription
from slowtrain.script.locations.edits import input_edits, recorded_edits
from slowtrain.script.navigation import node_lookup, scope_names
from slowtrain.script.pipelines import chain_edits, dataset_chains
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source
from slowtrain.trace import Trace

FUNCTION_NAME = "windows_of"
WINDOW_FUNCTION = '''
def {name}(table, size, shift):
    """Windows of ``size`` rows, ``shift`` apart, in order; many are gathered at once."""
    with {tf}.device("CPU"):
        table = {tf}.convert_to_tensor(table)
        rows = {tf}.range(size, dtype={tf}.int64)
    starts = {tf}.data.Dataset.range(0, len(table) - size + 1, shift).batch(64)
    return starts.map(lambda begun: {tf}.gather(table, begun[:, None] + rows)).unbatch()

'''


def find_cures(trace: Trace, finding: NestedWindows | TinyMaps) -> Iterable[Prescription]:
    if isinstance(finding, TinyMaps):
        batched = input_edits.batch_before_map(trace, finding.maps[0].node, finding.where()[:1])
        yield Prescription("edit", Effect.EQUIVALENT, "batch first, then map over whole batches", edits=batched)
        return
    says = "gather whole batches by index (or timeseries_dataset_from_array) in place of window().flat_map()"
    gathered = recorded_edits.first_applicable(trace, (finding.nested.place,), gather_windows)
    yield Prescription("edit" if gathered else "advice", Effect.EXACT, says, edits=gathered)


def gather_windows(source: Source, line: int) -> list[Edit]:
    """Replaces ``from_tensor_slices(x).window(n, s, drop_remainder=True).flat_map(batch of n)`` at ``line``.

    The new code makes exactly the same windows in the same order.
    """
    found = [c for c in node_lookup.calls_at_line(source, line, "flat_map", "window") if dataset_chains.is_operation(c)]
    several = dataset_chains.chains_through(source, found[0]) if found else []
    if len(several) != 1 or not several[0].whole or FUNCTION_NAME in source.text:
        return []
    flow = several[0]
    maker, *rest = flow.calls[:3]
    if [node_lookup.called_name(c) for c in flow.calls[:3]] != ["from_tensor_slices", "window", "flat_map"]:
        return []
    window, flat = rest
    table = node_lookup.argument_value(maker, "tensors", 0)
    sizes = _window_and_shift(window)
    if table is None or sizes is None or len(maker.args) + len(maker.keywords) != 1:
        return []
    size, shift = sizes
    if isinstance(table, (ast.Tuple, ast.Dict, ast.List)) or not _makes_one_batch(source, flat, size):
        return []
    if not chain_edits.are_movable(source, flow.calls[:3]):
        return []
    top: ast.AST | None = maker
    above = node_lookup.parents_of(source)
    while top is not None and not isinstance(above.get(top), ast.Module):
        top = above.get(top)
    if not isinstance(top, ast.stmt):
        return []
    tf, also = edits.ensure_import(source, "tensorflow", "tf")
    given = ", ".join(edits.node_text(source, n) for n in (table, size, shift))
    made = edits.replace_node(source, maker, f"{FUNCTION_NAME}({given})")
    removed = _edits_removing_calls(source, (window, flat))
    return [*also, edits.insert_before(source, top, WINDOW_FUNCTION.format(name=FUNCTION_NAME, tf=tf)), made, *removed]


def _window_and_shift(window: ast.Call) -> tuple[ast.expr, ast.expr] | None:
    """The length of a window and the distance to the next, if all windows are whole and have a stride of 1."""
    size, shift = node_lookup.argument_value(window, "size", 0), node_lookup.argument_value(window, "shift", 1)
    stride, drop = (
        node_lookup.argument_value(window, "stride", 2),
        node_lookup.argument_value(window, "drop_remainder", 3),
    )
    near = stride is None or (isinstance(stride, ast.Constant) and stride.value == 1)
    whole = isinstance(drop, ast.Constant) and drop.value is True
    if size is None or not near or not whole:
        return None
    unset = shift is None or (isinstance(shift, ast.Constant) and shift.value is None)
    return size, size if unset or shift is None else shift


def _makes_one_batch(source: Source, flat: ast.Call, size: ast.expr) -> bool:
    """Whether each window becomes one batch of its rows: ``lambda w: w.batch(n)``, or a function that returns that."""
    given = node_lookup.argument_value(flat, "map_func", 0)
    if len(flat.args) + len(flat.keywords) != 1:
        return False
    function: ast.AST | None = given
    if isinstance(given, ast.Name):
        function = node_lookup.function_named(source, given.id, flat)
    parameters = scope_names.parameter_names(function) if function is not None else []
    body: ast.AST | None = None
    if isinstance(function, ast.Lambda):
        body = function.body
    elif isinstance(function, ast.FunctionDef) and isinstance(function.body[-1], ast.Return):
        statements = [
            s for s in function.body[:-1] if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))
        ]
        body = function.body[-1].value if not statements and not function.decorator_list else None
    if not isinstance(body, ast.Call) or node_lookup.called_name(body) != "batch" or len(parameters) != 1:
        return False
    owner = body.func.value if isinstance(body.func, ast.Attribute) else None
    length = node_lookup.argument_value(body, "batch_size", 0)
    named = {k.arg for k in body.keywords} <= {"batch_size", "drop_remainder"} and len(body.args) <= 2
    same = length is not None and ast.dump(length) == ast.dump(size)
    return isinstance(owner, ast.Name) and owner.id == parameters[0] and named and same


def _edits_removing_calls(source: Source, calls: tuple[ast.Call, ...]) -> list[Edit]:
    """Removes ``calls`` from the chain, and the whole statement if only ``ds = ds`` would be left of it."""
    changed: list[Edit] = []
    for call in calls:
        statement = node_lookup.enclosing_statement(source, call)
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
        same = isinstance(owner, ast.Name) and isinstance(target, ast.Name) and owner.id == target.id
        row = source.text.split("\n")[call.lineno - 1]
        if isinstance(statement, ast.Assign) and statement.value is call and same and ";" not in row:
            changed.append(edits.remove_statement(source, statement))
        elif owner is not None:
            changed.append(Edit(source.file, edits.node_end(owner), edits.node_end(call), ""))
    return changed
