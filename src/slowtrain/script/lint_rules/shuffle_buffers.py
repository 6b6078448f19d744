"""Shuffle buffers behind the maps of a pipeline: the work to fill them, and their size."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from slowtrain.script.fixes.input import dataset_edits
from slowtrain.script.lint_rules import dataset_stages
from slowtrain.script.navigation import call_index, name_bindings, node_lookup
from slowtrain.script.pipelines import dataset_chains, element_sizes, map_work, whole_pipelines
from slowtrain.script.text.source_file import Source

FLOAT_BYTES = 4
# Functions that take 0.1 ms or more per element.
LONG_FUNCTIONS = (
    "decode_jpeg", "decode_png", "decode_image", "decode_gif", "decode_bmp", "decode_and_crop", "decode_wav",
    "read_file", "resize", "stft", "rfft", "fft", "mfcc", "spectrogram", "py_function", "numpy_function", "rot90",
    "rgb_to_", "avg_pool", "max_pool", "conv1d", "conv2d", "conv3d",
)  # fmt: skip
WIDENING_FUNCTIONS = frozenset({"cast", "to_float", "convert_image_dtype"})


@dataclass(frozen=True)
class ShuffleBuffer:
    """A ``shuffle`` after ``map`` calls.

    ``does``: their long work, if any. ``bytes``: size of the buffer if visible.
    """

    call: ast.Call
    does: str | None
    bytes: int | None


def buffers_after_maps(source: Source) -> Iterator[ShuffleBuffer]:
    """Find each ``shuffle`` of single elements directly after a map that could follow it."""
    for call in call_index.index_of(source).called("shuffle") if whole_pipelines.pipelines_of(source) else ():
        several = whole_pipelines.pipelines_with(source, call) if dataset_chains.is_operation(call) else []
        if not several or any({"cache", "snapshot"} & set(f.names) for f in several):
            continue
        flow = several[0]
        maps = _movable_maps(flow, call)
        size = node_lookup.argument_value(call, "buffer_size", 0)
        held = _buffer_elements(source, flow, size)
        if not maps or whole_pipelines.BATCHING_OPERATIONS & {node_lookup.called_name(c) for c in flow.before(call)}:
            continue
        if held is not None and held <= dataset_stages.MIN_BUFFER_ELEMENTS:
            continue
        # A ``repeat`` after the maps fills the buffer only once. A ``repeat`` at the source often makes it hold more
        # than a run uses.
        behind = flow.before(call)[flow.calls.index(maps[0]) :]
        filled_once = "repeat" in [node_lookup.called_name(c) for c in behind]
        yield ShuffleBuffer(
            call, None if filled_once else _long_map_work(source, maps), _buffer_bytes(source, flow, maps, held)
        )


def _movable_maps(flow: dataset_chains.DatasetChain, call: ast.Call) -> list[ast.Call]:
    """Return the maps before the shuffle that can move behind it."""
    found = []
    for before in reversed(flow.before(call)):
        if node_lookup.called_name(before) not in dataset_edits.COMMUTING_OPERATIONS:
            break
        if node_lookup.called_name(before) == "map":
            found.append(before)
    return found[::-1]


def _buffer_elements(source: Source, flow: dataset_chains.DatasetChain, size: ast.expr | None) -> int | None:
    """Return the number of elements of the buffer, limited by the data set."""
    asked = element_sizes.int_behind_name(source, size) if size is not None else None
    there = element_sizes.element_count(source, flow)
    if asked is None or asked < 0:
        return None
    return min(asked, there) if there is not None and "repeat" not in flow.names else asked


def _long_map_work(source: Source, maps: list[ast.Call]) -> str | None:
    for call in maps:
        function = whole_pipelines.mapped_function(source, call)
        if function is None:
            continue
        for inner in whole_pipelines.calls_in(whole_pipelines.reached_statements(source, function)):
            name = node_lookup.called_name(inner)
            if name.startswith(LONG_FUNCTIONS) and name_bindings.qualified_name(source, inner.func).startswith(
                map_work.FRAMEWORKS
            ):
                return name
    return None


def _buffer_bytes(
    source: Source, flow: dataset_chains.DatasetChain, maps: list[ast.Call], held: int | None
) -> int | None:
    """Return the bytes of a buffer of images or float32 rows of visible size; None if unknown."""
    if held is None:
        return None
    numbers = next(
        (n for n in (element_sizes.max_mapped_numbers(source, c) for c in reversed(maps)) if n is not None), None
    )
    if numbers is None and _widens_numbers(source, maps):
        parts = element_sizes.element_parts(source, flow.calls[0])
        numbers = parts[0].numbers if parts and parts[0].dtype == "uint8" else None
    return held * numbers * FLOAT_BYTES if numbers is not None else None


def _widens_numbers(source: Source, maps: list[ast.Call]) -> bool:
    functions = [f for f in (whole_pipelines.mapped_function(source, c) for c in maps) if f is not None]
    every = [c for f in functions for c in whole_pipelines.calls_in(whole_pipelines.reached_statements(source, f))]
    return any(node_lookup.called_name(c) in WIDENING_FUNCTIONS for c in every)
