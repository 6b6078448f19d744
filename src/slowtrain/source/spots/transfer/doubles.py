"""Data sets of NumPy's float64 arrays that a float32 model is trained on."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.source import Source
from slowtrain.source.reading import finding, index
from slowtrain.source.reading.input import consumed, elements, pipelines, taken

LEAST_NUMBERS = 16  # an element, assumed: a few numbers more are nothing beside the price of a copy
NARROWING = frozenset({"cast", "astype", "convert_image_dtype", "to_float", "float32", "numpy_function", "py_function"})


def arrays(source: Source) -> Iterator[ast.expr]:
    """Arrays of ``from_tensor_slices`` that are surely float64, and that no map makes anything else of."""
    if not pipelines.of(source):
        return
    trained = set(consumed.trained_on(source))
    if index.of(source).called("set_floatx", "set_dtype_policy"):
        return
    seen: set[ast.expr] = set()
    for flow in pipelines.of(source):
        if flow not in trained or any(_narrows(source, c) for c in flow.calls):
            continue
        for part in elements.parts(source, flow.calls[0]):
            large = part.numbers is not None and part.numbers >= LEAST_NUMBERS
            if large and part.dtype == "float64" and part.node not in seen:
                seen.add(part.node)
                yield part.node


def handed(source: Source) -> Iterator[ast.expr]:
    """The same of arrays that are made elsewhere, and handed on by whatever calls."""
    if index.of(source).called("set_floatx", "set_dtype_policy"):
        return
    for one in taken.of(source):
        first, call = one.stages[0], taken.written(source, one.stages[0])
        if first.name != "from_tensor_slices" or call is None or not call.args or not first.given.args:
            continue
        if not {"map", "apply", "interleave", "flat_map"}.isdisjoint(one.names):
            continue
        written, held = call.args[0], first.given.args[0]
        several = isinstance(written, (ast.Tuple, ast.List)) and held.kind == "tuple"
        parts = list(zip(written.elts, held.items.values(), strict=False)) if several else [(written, held)]  # type: ignore[attr-defined]
        for place, value in parts:
            count = taken.numbers(value, batched=True)
            if value.kind == "array" and value.dtype == "float64" and (count or 0) >= LEAST_NUMBERS:
                yield place


def _narrows(source: Source, call: ast.Call) -> bool:
    """Whether an operation may change types: a map that casts, or one that nobody can see into."""
    if finding.called(call) in ("apply", "interleave", "flat_map"):
        return True
    if finding.called(call) != "map":
        return False
    function = pipelines.function(source, call)
    if function is None:
        return True
    return any(finding.called(c) in NARROWING for c in pipelines.calls(pipelines.reached(source, function)))
