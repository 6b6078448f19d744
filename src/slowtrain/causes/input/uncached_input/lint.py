"""Where the cause input/uncached-input shows in a script's text."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from slowtrain.causes.input.uncached_input import rebuilt_caches
from slowtrain.model import Edit, Effect, Prescription, Spot
from slowtrain.number_text import format_number
from slowtrain.script.fixes.input import dataset_edits
from slowtrain.script.interpreter.domain.call_events import Event, Stage
from slowtrain.script.lint_rules import dataset_stages, spots
from slowtrain.script.navigation import call_index, node_lookup, scope_names
from slowtrain.script.pipelines import dataset_chains, element_sizes, interpreted_datasets, map_work, whole_pipelines
from slowtrain.script.properties import repeatable_functions
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import FILE_READERS, Source

ASSUMED_FILES = 4096  # assumed if unknown
# For ASSUMED_FILES, 256 KiB each. A compressed image or some seconds of sound have that size in their file, and the
# system caches such files in memory anyway. An image of 224 pixels has 147 KiB.
MAX_FILE_CACHE_BYTES = 2**30
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


def find_spots(source: Source) -> Iterable[Spot]:
    """Work that is the same in every epoch, if literals of the file show that its result is small."""
    known = list(repeated_map_work(source))
    for one in known:
        effect = Effect.EXACT if one.exact else Effect.EQUIVALENT
        says = f"put .cache() behind this {node_lookup.called_name(one.call)}"
        cure = Prescription("edit", effect, says, edits=one.edits)
        says = f"every epoch does {one.does} again for each element; "
        says += f"all results take {format_number(one.bytes / 2**20)} MiB"
        generator = (
            node_lookup.argument_value(one.call, "generator", 0)
            if "generator" in node_lookup.called_name(one.call)
            else None
        )
        place = (
            call_index.operation_range(one.call)
            if generator is None
            else (edits.node_start(generator), edits.node_end(generator))
        )
        yield Spot(*place, f"{says} at most", cure)
    seen = {one.call for one in known}
    early_ones = list(early_caches(source))
    for more, size in repeated_stages(source, cached=not early_ones):
        if more.call in seen:
            continue
        seen.add(more.call)
        says = f"every epoch does {more.says} again for each element"
        says += f"; all results take {format_number(size / 2**20)} MiB at most" if size else "; its result is small"
        cure = Prescription("advice", Effect.EQUIVALENT, "put .cache() behind this map, if all results fit in memory")
        yield spots.operation_spot(more.call, says, cure)
    for early in early_ones:
        says = "put .cache() behind the map that does it, if its results fit in memory"
        cure = Prescription("advice", Effect.EXACT, says)
        kept = "names only" if early.names else "elements before the work on them"
        says = f"this cache keeps {kept}: every epoch does {early.does} again for each element"
        yield spots.operation_spot(early.cache, says, cure)
    for each in rebuilt_caches.find_rebuilt_caches(source):
        says = "build it once, before the loop; put what differs between iterations behind its cache"
        cure = Prescription("advice", Effect.EQUIVALENT, says)
        says = "each iteration builds the data set again, with a cache that is never read: "
        says += f"every pass does {each.does} again"
        yield spots.node_spot(each.built, says, cure)


def repeated_stages(source: Source, *, cached: bool) -> Iterator[tuple[dataset_stages.SlowStage, int | None]]:
    """Find long work that repeats in every pass and has small results, with their size in bytes if known.

    ``cached``: also after a cache, which may only keep file names or encoded data.

    The number of files in a folder is unknown. The results are small if some thousand of them fit.
    """
    for one in interpreted_datasets.datasets_of(source) if ".map" in source.text else ():
        if one.passes < whole_pipelines.MIN_PASSES or {"snapshot", "take"} & set(one.names):
            continue
        if "cache" in one.names and not cached:
            continue
        found, kept = None, max((at for at, name in enumerate(one.names) if name == "cache"), default=-1)
        for at, stage in enumerate(one.stages):
            if at <= kept or stage.name != "map" or (call := interpreted_datasets.stage_call(source, stage)) is None:
                continue
            if _may_vary(stage):
                break
            count = interpreted_datasets.row_count(one.stages[: at + 1])
            read = dataset_stages.first_long_op(stage, ("read_file",)) or one.names[0] == "TFRecordDataset"
            does = _long_op(stage) if count or not read else dataset_stages.first_long_op(stage, LONG_FUNCTIONS)
            wide = interpreted_datasets.gives_batches(one.stages[:at])
            each = _stage_output_bytes(stage, batched=bool(wide))
            if each is None and _runs_keras_model(stage):  # a backbone has no more outputs than inputs
                given = interpreted_datasets.element_numbers(stage.before, batched=bool(wide))
                each = given * NUMBER_BYTES if given else None
            total = count or (max(ASSUMED_FILES, _largest_shuffle_buffer(one)) if read and wide is False else 0)
            size = total * each if each and wide is not None else 0
            if does is not None and 0 < size <= (MAX_CACHE_BYTES if count else MAX_FILE_CACHE_BYTES):
                found = dataset_stages.SlowStage(call, does), size if count else None
        if found is not None:
            yield found


def _largest_shuffle_buffer(one: interpreted_datasets.ConsumedDataset) -> int:
    """Return the elements of its largest shuffle buffer, a lower bound of the data set."""
    sizes = [s.given.get("buffer_size", 0).known for s in one.stages if s.name == "shuffle"]
    return max((n for n in sizes if isinstance(n, int)), default=0)


def _stage_output_bytes(stage: Stage, *, batched: bool) -> int | None:
    """Return the bytes of an element. Parts that the map passes through are in memory already."""
    there = {id(one) for one in interpreted_datasets.element_leaves(stage.before)}
    several = [
        interpreted_datasets.element_bytes(one, batched=batched)
        for one in interpreted_datasets.element_leaves(stage.after)
        if id(one) not in there
    ]
    return sum(n for n in several if n is not None) if None not in several else None


def _long_op(stage: Stage) -> str | None:
    return "a model" if _runs_keras_model(stage) else dataset_stages.first_long_op(stage, map_work.COSTLY_PREFIXES)


def _runs_keras_model(stage: Stage) -> bool:
    """Whether a Keras model runs in it in inference mode."""
    return any(_is_model_call(one) for one in stage.does)


def _is_model_call(event: Event) -> bool:
    made = event.on is not None and event.on.kind == "keras" and event.on.name.endswith((".Model", ".Sequential"))
    return event.name == "__call__" and made and event.given.get("training").known is False


def _may_vary(stage: Stage) -> bool:
    """Whether two passes may give different results, or the code is unknown."""
    for one in stage.does:
        unknown = one.on is not None and one.on.kind == "unknown" and one.name.startswith(".")
        layer = one.name == "__call__" and not _is_model_call(one)
        last = one.name.rpartition(".")[2]
        if (
            unknown
            or layer
            or ".random" in one.name
            or last.startswith(("random_", "sample_"))
            or last in dataset_stages.PYTHON_OPS
        ):
            return True
    return not stage.given.every or stage.given.every[0].kind not in dataset_stages.SCRIPT_KINDS


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
    reads = next((name for name in inner if name.startswith(map_work.READING_PREFIXES)), None)
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
        map_work.function_work(source, call.args[0], call) if call.args and dataset_chains.is_operation(call) else None
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
