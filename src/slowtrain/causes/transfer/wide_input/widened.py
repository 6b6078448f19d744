"""Maps that make floats of pictures' bytes and do nothing else, so that four times as much is batched and copied."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.script.interpreter.domain.call_events import Stage
from slowtrain.script.pipelines import interpreted_datasets
from slowtrain.script.text.source_file import Source

# Bytes of a batch of floats: more than a processor's caches keep, so that it goes out to memory and comes back whatever
# takes the step, and some 3 ms of a link of 10 GB/s. Less hides behind most steps.
LARGE = 2**25
FLOAT = 4
CASTS = frozenset({"tensorflow.cast", "tensorflow.image.convert_image_dtype", "keras.ops.cast"})
WIDE = ("float32", "float64")
BEHIND = interpreted_datasets.SAME_ELEMENT_STAGES - {"map"} | interpreted_datasets.BATCHING_STAGES | {"take", "skip"}


def maps(source: Source) -> Iterator[ast.Call]:
    """Each such map, where nothing behind it works on the floats."""
    if "uint8" not in source.text and "decode_" not in source.text:
        return
    seen: set[ast.AST] = set()
    for one in interpreted_datasets.datasets_of(source):
        for at, stage in enumerate(one.stages):
            node = interpreted_datasets.stage_call(source, stage)
            if stage.name != "map" or node in seen or not set(one.names[at + 1 :]) <= BEHIND:
                continue
            if node is not None and _only_casts(stage) and _widens(one, at):
                seen.add(node)
                yield node


def _only_casts(stage: Stage) -> bool:
    inside = [e for e in stage.does if e.on is None or e.on.kind not in ("function", "method", "graph")]
    return any(e.name in CASTS for e in inside) and all(e.name in CASTS for e in inside)


def _widens(one: interpreted_datasets.ConsumedDataset, at: int) -> bool:
    """Whether bytes become as many floats, and many of them in a batch."""
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
            or count * several[0] * FLOAT < LARGE
            or count != interpreted_datasets.element_numbers(now, batched=batched)
        ):
            continue
        if was.dtype == "uint8" and now.dtype in WIDE:
            return True
    return False
