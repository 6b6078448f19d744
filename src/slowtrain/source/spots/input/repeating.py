"""Lint rules about pipeline work that repeats in every epoch and whose result is small enough to cache."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.model import Edit
from slowtrain.script.navigation import call_index, node_lookup, scope_names
from slowtrain.script.pipelines import dataset_chains, element_sizes, map_work, whole_pipelines
from slowtrain.script.properties import repeatable_functions
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import FILE_READERS, Source
from slowtrain.source.cures.input import datasets
from slowtrain.values import dataclass

MOST_BYTES = 2**28  # assumed to be free on every training machine
NUMBER_BYTES = 8  # at most
PASSING = frozenset({"shuffle", "take", "skip", "shard", "prefetch", "with_options", "enumerate"})
NAMING = frozenset({"from_tensor_slices", "list_files", "from_tensors"})  # sources that may hold file names
BEHIND = frozenset({"map", "shuffle", "batch", "padded_batch", "repeat", "prefetch", "with_options"})
PICTURES = ("resize", "decode_jpeg", "decode_png", "decode_image", "decode_gif", "decode_bmp", "decode_and_crop")
LONG = ("stft", "mfcc", "spectrogram", "fft", "rfft", *PICTURES)  # 0.1 ms or more per element


@dataclass(frozen=True)
class Again:
    """``call`` repeats the work ``does`` for each element. ``edits`` cache the result of at most ``bytes``."""

    call: ast.Call
    does: str
    bytes: int
    edits: tuple[Edit, ...]
    exact: bool


@dataclass(frozen=True)
class Early:
    """``cache`` stands before the work ``does``. ``names``: it only keeps file names."""

    cache: ast.Call
    does: str
    names: bool


def work(source: Source) -> Iterator[Again]:
    """Find the last such work of each pipeline that training iterates several times."""
    for flow in whole_pipelines.pipelines_of(source):
        if {"cache", "snapshot", "take"} & set(flow.names) or not {"map", "from_generator"} & set(flow.names):
            continue
        count = element_sizes.element_count(source, flow)
        found = [one for call in flow.calls if count and (one := _at(source, call, count)) is not None]
        if found and whole_pipelines.is_read_repeatedly(source, flow):
            yield found[-1]


def too_early(source: Source) -> Iterator[Early]:
    """Find caches that are followed by the same long work in every epoch."""
    for flow in whole_pipelines.pipelines_of(source) if call_index.index_of(source).called("cache") else ():
        caches = [c for c in flow.calls if node_lookup.called_name(c) == "cache"]
        for call in flow.after(caches[-1]) if caches else ():
            if node_lookup.called_name(call) not in BEHIND or not (call.args or node_lookup.called_name(call) != "map"):
                break
            if node_lookup.called_name(call) != "map":
                continue
            if whole_pipelines.mapped_function(source, call) is None or repeatable_functions.may_vary_by_call(
                source, call.args[0]
            ):
                break
            found = _early(source, flow, caches[-1], call) if _mapped(source, call) is not None else None
            if found is not None and whole_pipelines.is_read_repeatedly(source, flow):
                yield found
                break


def _early(source: Source, flow: dataset_chains.DatasetChain, cache: ast.Call, call: ast.Call) -> Early | None:
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
    plain = {node_lookup.called_name(c) for c in before[1:]} <= PASSING and node_lookup.called_name(before[0]) in NAMING
    count, numbers = element_sizes.element_count(source, flow), element_sizes.max_mapped_numbers(source, call)
    size = count * numbers * NUMBER_BYTES if count and numbers else None
    reads = next((name for name in inner if name.startswith(map_work.READING_PREFIXES)), None)
    if plain and "read_file" in inner and reads is not None:
        return Early(cache, reads, True)
    does = next((name for name in inner if name.startswith(LONG)), None)
    pictures = any(
        name.startswith(PICTURES) for name in inner
    )  # a decoded image may be many times larger than its file
    if does is None or (size is None and pictures) or (size is not None and size > MOST_BYTES):
        return None
    return Early(cache, does, False)


def _at(source: Source, call: ast.Call, count: int) -> Again | None:
    generated = node_lookup.called_name(call) == "from_generator"
    if scope_names.enclosing_loops(source, call):
        return None  # one of several maps; the cache belongs after the last one
    if node_lookup.called_name(call) == "map":
        does, numbers = _mapped(source, call), element_sizes.max_mapped_numbers(source, call)
    elif generated:
        does, numbers = _generated(source, call), element_sizes.signature_numbers(source, call)
    else:
        return None
    size = count * numbers * NUMBER_BYTES if numbers is not None else None
    if does is None or size is None or size > MOST_BYTES:
        return None
    names = ("from_generator",) if generated else ()
    made, exact = datasets.cached(source, edits.node_end(call.func)[0], None, *names)
    return Again(call, does, size, tuple(made), exact) if made else None


def _mapped(source: Source, call: ast.Call) -> str | None:
    found = (
        map_work.function_work(source, call.args[0], call) if call.args and dataset_chains.is_operation(call) else None
    )
    return found.says if found is not None and not found.python else None


def _generated(source: Source, call: ast.Call) -> str | None:
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
