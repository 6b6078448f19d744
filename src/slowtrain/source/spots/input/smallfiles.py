"""Maps that read one small file for each element: raw bytes whose number the text shows."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from slowtrain.source import Source
from slowtrain.source.reading import finding, index, values
from slowtrain.source.reading.input import chains, elements, pipelines

MOST_BYTES = 65_536  # opening and closing takes about 20 µs, in which a disk's cache gives as much
SIZES = {
    "uint8": 1,
    "int8": 1,
    "int16": 2,
    "uint16": 2,
    "float16": 2,
    "int32": 4,
    "float32": 4,
    "float64": 8,
    "int64": 8,
}


@dataclass(frozen=True)
class Small:
    call: ast.Call
    bytes: int


def maps(source: Source) -> Iterator[Small]:
    """Each ``map`` that reads a file of raw numbers for one element."""
    for call in index.of(source).called("map") if pipelines.of(source) else ():
        several = pipelines.holding(source, call) if chains.operates(call) else []
        if not several or any("cache" in f.names or not pipelines.singly(f, call) for f in several):
            continue
        if not _calls(source, call, "read_file"):
            continue
        flow = several[0]
        sizes = [_bytes(source, one, flow) for one in (call, *flow.after(call)) if finding.called(one) == "map"]
        known = [s for s in sizes if s is not None]
        if known and known[0] <= MOST_BYTES:
            yield Small(call, known[0])


def _calls(source: Source, call: ast.Call, name: str) -> list[ast.Call]:
    function = pipelines.function(source, call)
    every = pipelines.calls(pipelines.reached(source, function)) if function is not None else []
    return [
        c for c in every if finding.called(c) == name and values.qualified(source, c.func).startswith("tensorflow.")
    ]


def _bytes(source: Source, call: ast.Call, flow: chains.Flow) -> int | None:
    """What one file holds: ``tf.reshape(tf.io.decode_raw(raw, tf.uint8), (-1, 24, 24))``, behind ``batch`` many."""
    batches = [finding.keyword(c, "batch_size", 0) for c in flow.before(call) if finding.called(c) == "batch"]
    batch = elements.number(source, batches[0]) if batches else None
    decoded = _calls(source, call, "decode_raw")
    kind = finding.keyword(decoded[0], "out_type", 1) if len(decoded) == 1 else None
    each = SIZES.get(kind.attr) if isinstance(kind, ast.Attribute) else None
    for shaped in (*_calls(source, call, "reshape"), *_calls(source, call, "ensure_shape")):
        shape = finding.keyword(shaped, "shape", 1)
        if each is None or not isinstance(shape, (ast.Tuple, ast.List)):
            continue
        sizes = [
            0 if isinstance(e, ast.UnaryOp) else elements.number(source, e) for e in shape.elts
        ]  # -1: what is left
        if batch is not None and sizes[:1] == [batch]:
            sizes[0] = 1
        whole = [s for s in sizes if s is not None and s > 0]
        if None not in sizes and whole:
            return each * prod(whole)
    return None
