"""Data sets of numbers that are wider than what they hold: float64 arrays, and bytes cast to floats."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from slowtrain.script.interpreter.domain.call_events import Stage
from slowtrain.script.interpreter.engine import queries
from slowtrain.script.lint_rules.double_weights import double_weights
from slowtrain.script.navigation import call_index, node_lookup
from slowtrain.script.pipelines import element_sizes, interpreted_datasets, whole_pipelines
from slowtrain.script.text.source_file import Source

MIN_ELEMENT_NUMBERS = 16  # of an element, assumed: for fewer, the start of a copy costs more than its bytes
CASTING_NAMES = frozenset(
    {"cast", "astype", "convert_image_dtype", "to_float", "float32", "numpy_function", "py_function"}
)
# Of floats: more than a processor caches, and some 3 ms of a link of 10 GB/s. Fewer bytes hide behind most steps.
MIN_BATCH_BYTES = 2**25
FLOAT_BYTES = 4
# Of an array of float64: fewer are copied in some 25 µs, which is about what the start of a copy takes.
MIN_COPIED_BYTES = 2**18
DOUBLE_BYTES = 8
CASTING_FUNCTIONS = frozenset({"tensorflow.cast", "tensorflow.image.convert_image_dtype", "keras.ops.cast"})
FLOAT_DTYPES = ("float32", "float64")
PASSING_STAGES = (
    interpreted_datasets.SAME_ELEMENT_STAGES - {"map"} | interpreted_datasets.BATCHING_STAGES | {"take", "skip"}
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
            large = _is_large(part.numbers, _batch_size(source, flow.calls))
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
        written, held_value = call.args[0], first.given.args[0]
        several = isinstance(written, (ast.Tuple, ast.List)) and held_value.kind == "tuple"
        parts = list(zip(written.elts, held_value.items.values(), strict=False)) if several else [(written, held_value)]  # type: ignore[attr-defined]
        for place, value in parts:
            count = interpreted_datasets.element_numbers(value, batched=True)
            sizes = [s.given.get("batch_size", 0).known for s in one.stages if s.name == "batch"]
            batch = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], int) else None
            if value.kind == "array" and value.dtype == "float64" and _is_large(count, batch):
                yield place


def _is_large(numbers: int | None, batch: int | None) -> bool:
    """Whether an element has many numbers, and a batch of them many bytes, as far as its size is known."""
    if numbers is None or numbers < MIN_ELEMENT_NUMBERS:
        return False
    return batch is None or numbers * batch * DOUBLE_BYTES >= MIN_COPIED_BYTES


def _batch_size(source: Source, calls: Iterable[ast.Call]) -> int | None:
    """The size of the batches that a chain makes; None if it is not known."""
    given = [node_lookup.argument_value(c, "batch_size", 0) for c in calls if node_lookup.called_name(c) == "batch"]
    return queries.int_at(source, given[0]) if len(given) == 1 and given[0] is not None else None


def _computes_in_double(source: Source) -> bool:
    """Whether the model may be a float64 one: by a setting of Keras, or by its weights."""
    settings = call_index.index_of(source).calls_of("set_floatx", "set_dtype_policy")
    return bool(settings) or any(True for _ in double_weights(source))


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


def find_widening_maps(source: Source) -> Iterator[ast.Call]:
    """Each such map, if nothing behind it changes the floats."""
    if "uint8" not in source.text and "decode_" not in source.text:
        return
    seen: set[ast.AST] = set()
    for one in interpreted_datasets.datasets_of(source):
        for at, stage in enumerate(one.stages):
            node = interpreted_datasets.stage_call(source, stage)
            if stage.name != "map" or node in seen or not set(one.names[at + 1 :]) <= PASSING_STAGES:
                continue
            if node is not None and _does_only_casts(stage) and _widens_large_batch(one, at):
                seen.add(node)
                yield node


def _does_only_casts(stage: Stage) -> bool:
    inside = [e for e in stage.does if e.on is None or e.on.kind not in ("function", "method", "graph")]
    return any(e.name in CASTING_FUNCTIONS for e in inside) and all(e.name in CASTING_FUNCTIONS for e in inside)


def _widens_large_batch(one: interpreted_datasets.ConsumedDataset, at: int) -> bool:
    """Whether bytes become as many floats, and a batch of them is large."""
    stage, batched = one.stages[at], interpreted_datasets.gives_batches(one.stages[:at])
    several = [s.given.get("batch_size", 0).known for s in one.stages if s.name in interpreted_datasets.BATCHING_STAGES]
    before, after = (
        list(interpreted_datasets.element_leaves(stage.before)),
        list(interpreted_datasets.element_leaves(stage.after)),
    )
    if batched is None or len(several) != 1 or not isinstance(several[0], int) or len(before) != len(after):
        return False
    for was, now in zip(before, after, strict=True):
        count = interpreted_datasets.element_numbers(was, batched=batched)
        if (
            count is None
            or count * several[0] * FLOAT_BYTES < MIN_BATCH_BYTES
            or count != interpreted_datasets.element_numbers(now, batched=batched)
        ):
            continue
        if was.dtype == "uint8" and now.dtype in FLOAT_DTYPES:
            return True
    return False
