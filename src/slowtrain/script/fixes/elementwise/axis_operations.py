"""Operations with an axis or a structure, as :mod:`.elementwise` follows them."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from slowtrain.model import Edit
from slowtrain.script.fixes.elementwise import literal_keys as keys
from slowtrain.script.fixes.elementwise.known_operations import (
    ConstantValue,
    ElementValue,
    NotProvenError,
    ReadFunction,
    StructureValue,
    Value,
)
from slowtrain.script.navigation import node_lookup
from slowtrain.script.text import edits

RANK_REDUCING_PREFIXES = ("reduce_", "arg", "squeeze")


def operation_result(
    found: ReadFunction, call: ast.Call, name: str, values: Sequence[Value], named: Mapping[str, Value]
) -> Value:  # fmt: skip
    """Return the result of ``tensorflow.<name>`` for one element, and record the changes that batches need."""
    if name in ("stack", "concat"):
        return _joined_tensors(found, call, name, values)
    first = values[0] if values else None
    if not isinstance(first, ElementValue) or any(
        not isinstance(v, ConstantValue) for v in (*values[1:], *named.values())
    ):
        raise NotProvenError(f"line {call.lineno}: {name}")
    if name == "io.decode_csv":
        return StructureValue(each=first)
    if name == "io.decode_raw":
        return ElementValue(None if first.rank is None else first.rank + 1, call if first.rank is None else None)
    if name in ("io.parse_single_example", "io.parse_example"):
        return _parsed_features(found, call, first)
    if name == "reshape":
        return _reshaped_tensor(found, call)
    if name == "one_hot":
        if node_lookup.argument_value(call, "axis", 4) is not None:
            raise NotProvenError("one_hot with an axis")
        return ElementValue(None if first.rank is None else first.rank + 1, call if first.rank is None else None)
    return _along_axis(found, call, name, first)


def _along_axis(found: ReadFunction, call: ast.Call, name: str, first: ElementValue) -> Value:
    position = 2 if name == "unstack" else 1
    default = -1 if name.startswith("nn.") else None
    grows = name == "expand_dims"
    count = None if first.rank is None else first.rank + grows
    if default is None or node_lookup.argument_value(call, "axis", position) is not None:
        _count_axis_from_end(found, call, count, position)
    if name.startswith(RANK_REDUCING_PREFIXES):
        kept = node_lookup.argument_value(call, "keepdims")
        if kept is not None and not (name.startswith("reduce_") and isinstance(kept, ast.Constant)):
            raise NotProvenError("keepdims")
        found.lowered = True
        kept_all = isinstance(kept, ast.Constant) and kept.value is True
        lower = 0 if kept_all else 1
        return ElementValue(None if first.rank is None else first.rank - lower, call if first.rank is None else None)
    if name == "unstack":
        found.lowered = True
        return StructureValue(each=ElementValue(None if first.rank is None else first.rank - 1, call))
    if grows:
        return ElementValue(count, call if count is None else None)
    return first


def _count_axis_from_end(found: ReadFunction, call: ast.Call, count: int | None, position: int) -> None:
    """Count the axis of ``call`` from the end. ``count``: the rank; None if unknown."""
    given = node_lookup.argument_value(call, "axis", position)
    if given is None:
        raise NotProvenError("all axes")
    try:
        axis = ast.literal_eval(given)
    except (ValueError, TypeError) as error:
        raise NotProvenError("an axis") from error
    if not isinstance(axis, int) or isinstance(axis, bool):
        raise NotProvenError("an axis")
    if axis < 0:
        return
    if count is None or axis >= count:
        raise NotProvenError("an axis from the front")
    found.changes.append(edits.replace_node(found.source, given, str(axis - count)))


def _joined_tensors(found: ReadFunction, call: ast.Call, name: str, values: Sequence[Value]) -> Value:
    group = values[0] if values else None
    if not isinstance(group, StructureValue) or group.keys:
        raise NotProvenError(f"line {call.lineno}: {name}")
    parts = [p for p in (*group.parts, group.each) if p is not None]
    items = [p for p in parts if isinstance(p, ElementValue)]
    if len(items) != len(parts) or not items:
        raise NotProvenError(f"line {call.lineno}: {name} of constants")
    rank = items[0].rank
    alike = all(i.rank == rank for i in items) and (rank is not None or all(i.like == items[0].like for i in items))
    if not alike:
        raise NotProvenError("different axes")
    count = None if rank is None else rank + (name == "stack")
    if node_lookup.argument_value(call, "axis", 1) is None and name == "stack":
        if count is None:
            raise NotProvenError("an axis from the front")
        found.changes.append(edits.set_keyword(found.source, call, "axis", str(-count)))
    else:
        _count_axis_from_end(found, call, count, 1)
    return ElementValue(count, call if count is None else None)


def _parsed_features(found: ReadFunction, call: ast.Call, first: ElementValue) -> Value:
    """``tf.io.parse_example`` accepts one example or many, with equal results for features of fixed length."""
    if first.rank not in (0, None):
        raise NotProvenError("several examples")
    given = node_lookup.argument_value(call, "features", 1)
    if given is None:
        raise NotProvenError("features")
    entries = dict(keys.dictionary_entries(found.source, given))  # the later value of a key wins
    ranks = []
    for value in entries.values():
        shape = node_lookup.argument_value(value, "shape", 0) if isinstance(value, ast.Call) else None
        fixed = isinstance(value, ast.Call) and node_lookup.called_name(value) == "FixedLenFeature"
        if not fixed or not isinstance(shape, (ast.List, ast.Tuple)):
            raise NotProvenError("features of any length")
        ranks.append(len(shape.elts))
    if node_lookup.called_name(call) == "parse_single_example":
        if not isinstance(call.func, ast.Attribute):
            raise NotProvenError("parse_single_example by itself")
        line, column = edits.node_end(call.func)
        found.changes.append(
            Edit(found.source.file, (line, column - len("parse_single_example")), (line, column), "parse_example")
        )
    return StructureValue(tuple(ElementValue(r) for r in ranks), tuple(entries))


def _reshaped_tensor(found: ReadFunction, call: ast.Call) -> Value:
    """Add a first axis for the batch to a shape of numbers."""
    shape = node_lookup.argument_value(call, "shape", 1)
    if not isinstance(shape, (ast.List, ast.Tuple)) or not shape.elts:
        raise NotProvenError("a shape")
    for one in shape.elts:
        number = isinstance(one, ast.Constant) and isinstance(one.value, int) and one.value > 0
        if not number:
            raise NotProvenError("a shape")
    found.changes.append(edits.insert_text(found.source, edits.node_start(shape.elts[0]), "-1, "))
    found.once = True
    return ElementValue(len(shape.elts))
