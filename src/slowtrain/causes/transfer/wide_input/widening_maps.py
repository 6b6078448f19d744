"""Maps that only cast the bytes of pictures to floats, so that four times as much is batched and copied."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.script.interpreter.domain.call_events import Stage
from slowtrain.script.pipelines import interpreted_datasets
from slowtrain.script.text.source_file import Source

# Of floats: more than a processor caches, and some 3 ms of a link of 10 GB/s. Fewer bytes hide behind most steps.
MIN_BATCH_BYTES = 2**25
FLOAT_BYTES = 4
CASTING_FUNCTIONS = frozenset({"tensorflow.cast", "tensorflow.image.convert_image_dtype", "keras.ops.cast"})
FLOAT_DTYPES = ("float32", "float64")
PASSING_STAGES = (
    interpreted_datasets.SAME_ELEMENT_STAGES - {"map"} | interpreted_datasets.BATCHING_STAGES | {"take", "skip"}
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
