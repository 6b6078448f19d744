"""Lint rules about pipeline work that repeats in every epoch and whose result is small enough to cache."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from slowtrain.model import Edit
from slowtrain.script.fixes.input import dataset_edits
from slowtrain.script.navigation import call_index, node_lookup, scope_names
from slowtrain.script.pipelines import dataset_chains, element_sizes, whole_pipelines
from slowtrain.script.properties import repeatable_functions
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import FILE_READERS, Source

MAX_CACHE_BYTES = 2**28  # assumed to be free on every training machine
NUMBER_BYTES = 8  # at most
PASSING_OPERATIONS = frozenset({"shuffle", "take", "skip", "shard", "prefetch", "with_options", "enumerate"})
NAME_SOURCES = frozenset({"from_tensor_slices", "list_files", "from_tensors"})  # sources that may hold file names
LATER_OPERATIONS = frozenset({"map", "shuffle", "batch", "padded_batch", "repeat", "prefetch", "with_options"})
PICTURE_FUNCTIONS = (
    "resize",
    "decode_jpeg",
    "decode_png",
    "decode_image",
    "decode_gif",
    "decode_bmp",
    "decode_and_crop",
)
LONG_FUNCTIONS = ("stft", "mfcc", "spectrogram", "fft", "rfft", *PICTURE_FUNCTIONS)  # 0.1 ms or more per element


@dataclass(frozen=True)
class RepeatedWork:
    """``call`` repeats the work ``does`` for each element. ``edits`` cache the result of at most ``bytes``."""

    call: ast.Call
    does: str
    bytes: int
    edits: tuple[Edit, ...]
    exact: bool


@dataclass(frozen=True)
class EarlyCache:
    """``cache`` stands before the work ``does``. ``names``: it only keeps file names."""

    cache: ast.Call
    does: str
    names: bool


def repeated_map_work(source: Source) -> Iterator[RepeatedWork]:
    """Find the last such work of each pipeline that training iterates several times."""
    for flow in whole_pipelines.pipelines_of(source):
        if {"cache", "snapshot", "take"} & set(flow.names) or not {"map", "from_generator"} & set(flow.names):
            continue
        count = element_sizes.element_count(source, flow)
        found = [one for call in flow.calls if count and (one := _repeated_work_at(source, call, count)) is not None]
        if found and whole_pipelines.is_read_repeatedly(source, flow):
            yield found[-1]


def early_caches(source: Source) -> Iterator[EarlyCache]:
    """Find caches that are followed by the same long work in every epoch."""
    for flow in whole_pipelines.pipelines_of(source) if call_index.index_of(source).called("cache") else ():
        caches = [c for c in flow.calls if node_lookup.called_name(c) == "cache"]
        for call in flow.after(caches[-1]) if caches else ():
            if node_lookup.called_name(call) not in LATER_OPERATIONS or not (
                call.args or node_lookup.called_name(call) != "map"
            ):
                break
            if node_lookup.called_name(call) != "map":
                continue
            if whole_pipelines.mapped_function(source, call) is None or repeatable_functions.may_vary_by_call(
                source, call.args[0]
            ):
                break
            found = _early_cache(source, flow, caches[-1], call) if _long_map_work(source, call) is not None else None
            if found is not None and whole_pipelines.is_read_repeatedly(source, flow):
                yield found
                break


def _early_cache(
    source: Source, flow: dataset_chains.DatasetChain, cache: ast.Call, call: ast.Call
) -> EarlyCache | None:
    """Return ``call`` that should stand before ``cache``, if its output is certainly small enough."""
    function = whole_pipelines.mapped_function(source, call)
    inner = (
        [
            node_lookup.called_name(c)
            for c in whole_pipelines.calls_in(whole_pipelines.reached_statements(source, function))
        ]
        if function
        else []
    )
    before = flow.before(cache)
    plain = {node_lookup.called_name(c) for c in before[1:]} <= PASSING_OPERATIONS and node_lookup.called_name(
        before[0]
    ) in NAME_SOURCES
    count, numbers = element_sizes.element_count(source, flow), element_sizes.max_mapped_numbers(source, call)
    size = count * numbers * NUMBER_BYTES if count and numbers else None
    reads = next((name for name in inner if name.startswith(whole_pipelines.READING_PREFIXES)), None)
    if plain and "read_file" in inner and reads is not None:
        return EarlyCache(cache, reads, True)
    does = next((name for name in inner if name.startswith(LONG_FUNCTIONS)), None)
    pictures = any(
        name.startswith(PICTURE_FUNCTIONS) for name in inner
    )  # a decoded image may be many times larger than its file
    if does is None or (size is None and pictures) or (size is not None and size > MAX_CACHE_BYTES):
        return None
    return EarlyCache(cache, does, False)


def _repeated_work_at(source: Source, call: ast.Call, count: int) -> RepeatedWork | None:
    generated = node_lookup.called_name(call) == "from_generator"
    if scope_names.enclosing_loops(source, call):
        return None  # one of several maps; the cache belongs after the last one
    if node_lookup.called_name(call) == "map":
        does, numbers = _long_map_work(source, call), element_sizes.max_mapped_numbers(source, call)
    elif generated:
        does, numbers = _generator_file_reads(source, call), element_sizes.signature_numbers(source, call)
    else:
        return None
    size = count * numbers * NUMBER_BYTES if numbers is not None else None
    if does is None or size is None or size > MAX_CACHE_BYTES:
        return None
    names = ("from_generator",) if generated else ()
    made, exact = dataset_edits.add_cache(source, edits.node_end(call.func)[0], None, *names)
    return RepeatedWork(call, does, size, tuple(made), exact) if made else None


def _long_map_work(source: Source, call: ast.Call) -> str | None:
    found = (
        whole_pipelines.function_work(source, call.args[0], call)
        if call.args and dataset_chains.is_operation(call)
        else None
    )
    return found.says if found is not None and not found.python else None


def _generator_file_reads(source: Source, call: ast.Call) -> str | None:
    """Return the function with which a generator reads files, if any."""
    given = node_lookup.argument_value(call, "generator", 0)
    made = node_lookup.function_named(source, given.id, call) if isinstance(given, ast.Name) else None
    if made is None:
        return None
    for inner in whole_pipelines.calls_in(whole_pipelines.reached_statements(source, made)):
        name = scope_names.resolved_name(source, inner.func)
        if (
            name == "os.open"
            or node_lookup.called_name(inner) in FILE_READERS - {"load", "get"}
            or name == "numpy.load"
        ):
            return name
    return None
