"""Data sets of NumPy's float64 arrays that a float32 model is trained on."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.causes.compute.double_precision import lint
from slowtrain.script.navigation import call_index, node_lookup
from slowtrain.script.pipelines import element_sizes, interpreted_datasets, whole_pipelines
from slowtrain.script.text.source_file import Source

MIN_ELEMENT_NUMBERS = 16  # of an element, assumed: for fewer, the start of a copy costs more than its bytes
CASTING_NAMES = frozenset(
    {"cast", "astype", "convert_image_dtype", "to_float", "float32", "numpy_function", "py_function"}
)


def arrays_made_here(source: Source) -> Iterator[ast.expr]:
    """Arrays given to ``from_tensor_slices`` that are float64, if no map changes their type."""
    if not whole_pipelines.pipelines_of(source):
        return
    trained = set(whole_pipelines.training_chains(source))
    if _computes_in_double(source):
        return
    seen: set[ast.expr] = set()
    for flow in whole_pipelines.pipelines_of(source):
        if flow not in trained or any(_may_change_types(source, c) for c in flow.calls):
            continue
        for part in element_sizes.element_parts(source, flow.calls[0]):
            large = part.numbers is not None and part.numbers >= MIN_ELEMENT_NUMBERS
            if large and part.dtype == "float64" and part.node not in seen:
                seen.add(part.node)
                yield part.node


def arrays_made_elsewhere(source: Source) -> Iterator[ast.expr]:
    """The same for arrays that are made elsewhere and passed on by calls."""
    if _computes_in_double(source):
        return
    for one in interpreted_datasets.datasets_of(source):
        first, call = one.stages[0], interpreted_datasets.stage_call(source, one.stages[0])
        if first.name != "from_tensor_slices" or call is None or not call.args or not first.given.args:
            continue
        if not {"map", "apply", "interleave", "flat_map"}.isdisjoint(one.names):
            continue
        written, held = call.args[0], first.given.args[0]
        several = isinstance(written, (ast.Tuple, ast.List)) and held.kind == "tuple"
        parts = list(zip(written.elts, held.items.values(), strict=False)) if several else [(written, held)]  # type: ignore[attr-defined]
        for place, value in parts:
            count = interpreted_datasets.element_numbers(value, batched=True)
            if value.kind == "array" and value.dtype == "float64" and (count or 0) >= MIN_ELEMENT_NUMBERS:
                yield place


def _computes_in_double(source: Source) -> bool:
    """Whether the model may be a float64 one: by a setting of Keras, or by its weights."""
    settings = call_index.index_of(source).called("set_floatx", "set_dtype_policy")
    return bool(settings) or any(True for _ in lint.double_weights(source))


def _may_change_types(source: Source, call: ast.Call) -> bool:
    """Whether an operation may change types: a map that casts, or a function that is not in the text."""
    if node_lookup.called_name(call) in ("apply", "interleave", "flat_map"):
        return True
    if node_lookup.called_name(call) != "map":
        return False
    function = whole_pipelines.mapped_function(source, call)
    if function is None:
        return True
    return any(
        node_lookup.called_name(c) in CASTING_NAMES
        for c in whole_pipelines.calls_in(whole_pipelines.reached_statements(source, function))
    )
