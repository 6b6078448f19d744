"""Maps that do next to nothing for each of many small elements, shown from their text."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from slowtrain.source import Source, trees
from slowtrain.source.reading import finding, index, scopes, values
from slowtrain.source.reading.input import chains, elements, pipelines

# Of an element: casting or scaling so many floats takes a few microseconds, less than the call itself (8 to 19).
MOST_NUMBERS = 4096
LINES = frozenset({"TextLineDataset"})
# Functions of TensorFlow that take microseconds for so few numbers.
CHEAP = frozenset(
    "cast one_hot expand_dims squeeze reshape stack unstack concat constant convert_to_tensor identity where greater "
    "less equal not_equal minimum maximum clip_by_value abs sign sqrt square log exp pow add subtract multiply divide "
    "reduce_mean reduce_sum reduce_max reduce_min reduce_std to_float to_int32 zeros_like ones_like shape split strip "
    "to_number transpose floor round tanh sigmoid decode_csv parse_single_example FixedLenFeature convert_image_dtype "
    "ensure_shape set_shape logical_and logical_or logical_not gather boolean_mask range float32 int32 int64".split()
)
BUILTINS = frozenset("dict zip list tuple len range enumerate float int pop items keys values".split())


@dataclass(frozen=True)
class Tiny:
    """``says`` what an element is; ``ranks``: axes of its components where they are visible."""

    call: ast.Call
    says: str
    ranks: tuple[int, ...]


def maps(source: Source) -> Iterator[Tiny]:
    """Each ``map`` over single small elements that only does cheap operations, in front of ``batch``."""
    for call in index.of(source).called("map") if pipelines.of(source) else ():
        if not chains.operates(call) or not call.args:
            continue
        several = pipelines.holding(source, call)
        if not several or any("cache" in f.names or not pipelines.singly(f, call) for f in several):
            continue
        flow = several[0]
        between = [finding.called(c) for c in flow.before(call)[1:]]
        says = _element(source, flow)
        if says is not None and set(between) <= {"shuffle", "repeat", "map", "take", "skip", "with_options"}:
            function = pipelines.function(source, call)
            if function is not None and cheap(source, function, says):
                parts = elements.parts(source, flow.calls[0])
                known = [len(p.shape) for p in parts if p.shape is not None] if "map" not in between else []
                yield Tiny(call, says, tuple(known) if len(known) == len(parts) else ())


def _element(source: Source, flow: chains.Flow) -> str | None:
    """What a single element is, where it is surely small."""
    maker = flow.calls[0]
    if finding.called(maker) in LINES:
        return "line of text"
    if finding.called(maker) == "TFRecordDataset":
        return "record"
    # A picture is work to touch, the row of a table is not. A part whose rows are not visible (labels, mostly) is no
    # longer than the others, or nobody can say.
    parts = elements.parts(source, maker)
    if any(p.shape is not None and len(p.shape) > 1 for p in parts):
        return None
    numbers = [p.numbers for p in parts[:1]] + [p.numbers for p in parts[1:] if p.numbers is not None]
    whole = [n for n in numbers if n is not None]
    if not whole or len(whole) < len(numbers) or not 1 <= sum(whole) <= MOST_NUMBERS:
        return None
    return f"row of {max(whole)} numbers" if max(whole) > 1 else None


def cheap(source: Source, function: ast.AST, element: str) -> bool:
    """Whether a function surely takes microseconds: known small operations, and arithmetic."""
    statements = pipelines.reached(source, function)
    if any(isinstance(n, (ast.While, ast.Lambda)) for s in statements for n in trees.walk(s) if n is not function):
        return False
    found = []
    for call in pipelines.calls(statements):
        name = finding.called(call)
        if finding.defined(source, name, call) is not None:
            continue
        framework = values.qualified(source, call.func).startswith("tensorflow.")
        method = isinstance(call.func, ast.Attribute) and name in ("set_shape", *BUILTINS)
        plain = isinstance(call.func, ast.Name) and name in BUILTINS and not scopes.binders(source, name, source.tree)
        if not ((framework and name in CHEAP) or method or plain):
            return False
        found.append(name)
    if element == "record":
        return "parse_single_example" in found and _scalars(statements)
    return element != "line of text" or "decode_csv" in found


def _scalars(statements: list[ast.AST]) -> bool:
    """Whether all features that a record is parsed into are single numbers, written out where they are parsed."""
    features = [c for c in pipelines.calls(statements) if finding.called(c) == "FixedLenFeature"]
    shapes = [finding.keyword(c, "shape", 0) for c in features]
    types = [finding.keyword(c, "dtype", 1) for c in features]
    text = any(isinstance(t, ast.Attribute) and t.attr == "string" for t in types)
    return bool(shapes) and not text and all(isinstance(s, (ast.List, ast.Tuple)) and not s.elts for s in shapes)
