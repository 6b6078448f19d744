"""Maps that do next to nothing for each of many small elements, shown from their text."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from math import prod

from slowtrain.source import Source, trees
from slowtrain.source.reading import finding, index, scopes, values
from slowtrain.source.reading.input import chains, elements, pipelines
from slowtrain.values import dataclass

# Of an element: casting or scaling so many floats takes a few microseconds, less than the call itself (8 to 19).
MOST_NUMBERS = 4096
SMALL_PICTURE = 1024  # numbers, as 28 x 28: to cast and scale them takes a microsecond, less than the call
FEW_WINDOWS = 1000  # at some 0.1 ms each, for the data set and its iterator
LEAST_NUMBERS = 2  # of a single one nobody knows what it stands for: the name of a file, the number of a sample
LINES = frozenset({"TextLineDataset"})
# Functions of TensorFlow that take microseconds for so few numbers.
CHEAP = frozenset(
    "cast one_hot expand_dims squeeze reshape stack unstack concat constant convert_to_tensor identity where greater "
    "less equal not_equal minimum maximum clip_by_value abs sign sqrt square log exp pow add subtract multiply divide "
    "reduce_mean reduce_sum reduce_max reduce_min reduce_std to_float to_int32 zeros_like ones_like shape split strip "
    "to_number transpose floor round tanh sigmoid sin cos log1p floormod mod join as_string to_hash_bucket "
    "to_hash_bucket_fast substr regex_full_match decode_csv parse_single_example FixedLenFeature convert_image_dtype "
    "ensure_shape set_shape logical_and logical_or logical_not gather boolean_mask range float32 int32 int64 "
    "sinh cosh tan asin acos atan atan2 asinh acosh atanh expm1 rsqrt reciprocal negative sigmoid softplus relu "
    "divide_no_nan truediv floordiv is_nan is_finite argmax argmin reduce_any reduce_all cumsum tile pad".split()
)
DRAWN = frozenset({"normal", "uniform"})  # where they draw as many numbers as they are given, of a batch each its own
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
            if function is not None and cheap(source, function, says) and not _worked_on(source, flow, call):
                parts = elements.parts(source, flow.calls[0])
                known = [len(p.shape) for p in parts if p.shape is not None] if "map" not in between else []
                yield Tiny(call, says, tuple(known) if len(known) == len(parts) else ())


def _worked_on(source: Source, flow: chains.Flow, call: ast.Call) -> bool:
    """Whether another map of single elements takes long, or nobody can tell: then this one is nothing beside it."""
    for other in flow.calls:
        if other is call or finding.called(other) != "map" or not pipelines.singly(flow, other):
            continue
        function = pipelines.function(source, other)
        if function is None or not cheap(source, function, "row"):
            return True
    return False


def windows(source: Source) -> Iterator[ast.Call]:
    """``flat_map`` behind ``window`` of a table in memory, that makes one batch of each window's rows."""
    for flow in pipelines.of(source) if index.of(source).called("flat_map") else ():
        if flow.names[:3] != ("from_tensor_slices", "window", "flat_map") or "cache" in flow.names:
            continue
        count, flat = elements.count(source, flow), flow.calls[2]
        function = pipelines.function(source, flat)
        if function is None or (count is not None and count < FEW_WINDOWS):
            continue
        returned = [n.value for n in scopes.own(scopes.body(function)) if isinstance(n, ast.Return)]
        back = [function.body] if isinstance(function, ast.Lambda) else returned
        made = back[0] if len(back) == 1 else None
        owner = made.func.value if isinstance(made, ast.Call) and isinstance(made.func, ast.Attribute) else None
        batched = isinstance(made, ast.Call) and finding.called(made) == "batch"
        if batched and owner is not None and scopes.dotted(owner) in scopes.parameters(function):
            yield flat


def _element(source: Source, flow: chains.Flow) -> str | None:
    """What a single element is, where it is surely small."""
    maker = flow.calls[0]
    if finding.called(maker) in LINES:
        return "line of text"
    if finding.called(maker) == "TFRecordDataset":
        return "record"
    # A picture is work to touch unless it is tiny, a row of a table is not. A part whose rows are not visible (labels,
    # mostly) is no longer than the others, or nobody can say.
    parts = elements.parts(source, maker)
    pictures = [p.shape for p in parts if p.shape is not None and len(p.shape) > 1]
    if any(len(one) > 2 or prod(one) > SMALL_PICTURE for one in pictures):
        return None
    numbers = [p.numbers for p in parts[:1]] + [p.numbers for p in parts[1:] if p.numbers is not None]
    whole = [n for n in numbers if n is not None]
    if not whole or len(whole) < len(numbers) or not 1 <= sum(whole) <= MOST_NUMBERS:
        return None
    if pictures:
        return picture(pictures[0])
    return f"row of {sum(whole)} numbers" if sum(whole) >= LEAST_NUMBERS else None


def picture(shape: Sequence[int]) -> str:
    return f"image of {' x '.join(map(str, shape))}"


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
        drawn = name in DRAWN and elements.as_many_as(source, call) is not None
        if not ((framework and (name in CHEAP or drawn)) or method or plain):
            return False
        found.append(name)
    if element == "record":
        return "parse_single_example" in found and _few_numbers(source, statements)
    return element != "line of text" or "decode_csv" in found


def _few_numbers(source: Source, statements: list[ast.AST]) -> bool:
    """Whether all features that a record is parsed into are few numbers, written out there or under one name."""
    every = pipelines.calls(statements)
    for call in (c for c in every if finding.called(c) == "parse_single_example"):
        given = finding.keyword(call, "features", 1)
        if isinstance(given, ast.Name):
            every += pipelines.calls(_bound_to(source, given))
    features = [c for c in every if finding.called(c) in ("FixedLenFeature", "VarLenFeature", "RaggedFeature")]
    sizes = [_size(source, c) for c in features]
    return bool(sizes) and None not in sizes and sum(n for n in sizes if n is not None) <= MOST_NUMBERS


def _bound_to(source: Source, name: ast.Name) -> list[ast.AST]:
    """Statements of the module that bind ``name``, or put something under a key of it."""
    return [
        node
        for node in source.tree.body
        if isinstance(node, (ast.Assign, ast.AnnAssign))
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if scopes.dotted(target.value if isinstance(target, ast.Subscript) else target) == name.id
    ]


def _size(source: Source, feature: ast.Call) -> int | None:
    """Numbers in a feature of fixed length; None for another, for text, and where its shape is not visible."""
    shape, kind = finding.keyword(feature, "shape", 0), finding.keyword(feature, "dtype", 1)
    if isinstance(kind, ast.Attribute) and kind.attr == "string":
        return None
    if finding.called(feature) != "FixedLenFeature" or not isinstance(shape, (ast.List, ast.Tuple)):
        return None
    sizes = [elements.number(source, e) for e in shape.elts]
    return None if None in sizes else prod(n for n in sizes if n is not None)
