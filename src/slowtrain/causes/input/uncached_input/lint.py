"""Where the cause input/uncached-input shows in a script's text."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from slowtrain.causes.input.uncached_input import rebuilt_caches
from slowtrain.model import Effect, Prescription, Spot
from slowtrain.number_text import format_number
from slowtrain.script.fixes.input import dataset_edits
from slowtrain.script.interpreter.domain.call_events import Event, Stage
from slowtrain.script.lint_rules import dataset_stages, spots
from slowtrain.script.navigation import call_index, node_lookup, scope_names
from slowtrain.script.pipelines import dataset_chains, element_sizes, interpreted_datasets, whole_pipelines
from slowtrain.script.pipelines.dataset_chains import DatasetChain
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
    "resize", "decode_jpeg", "decode_png", "decode_image", "decode_gif", "decode_bmp", "decode_and_crop",
)  # fmt: skip
LONG_FUNCTIONS = ("stft", "mfcc", "spectrogram", "fft", "rfft", *PICTURE_FUNCTIONS)  # 0.1 ms or more per element


def find_spots(source: Source) -> Iterable[Spot]:
    """Work that is the same in every epoch, if sizes in the file show that its result is small."""
    early = list(early_caches(source))
    yield from spots.distinct_spots((*repeated_map_work(source), *repeated_stages(source, cached=not early), *early))
    for each in rebuilt_caches.find_rebuilt_caches(source):
        once = "build it once, before the loop; put what differs between iterations behind its cache"
        says = "each iteration builds the data set again, with a cache that is never read: "
        cure = Prescription("advice", Effect.EQUIVALENT, once)
        yield spots.node_spot(each.built, f"{says}every pass does {each.does} again", cure)


def repeated_stages(source: Source, *, cached: bool) -> Iterator[Spot]:
    """Find the last long work of each data set that repeats in every pass and has small results.

    ``cached``: also after a cache, which may only keep file names or encoded data.
    """
    excluded = {"snapshot", "take"} if cached else {"snapshot", "take", "cache"}
    for data in interpreted_datasets.datasets_of(source) if ".map" in source.text else ():
        if data.passes < whole_pipelines.MIN_PASSES or excluded & set(data.names):
            continue
        found, kept = None, max((at for at, name in enumerate(data.names) if name == "cache"), default=-1)
        for at, stage in enumerate(data.stages):
            call = interpreted_datasets.stage_call(source, stage)
            if at <= kept or stage.name != "map" or call is None:
                continue
            if _may_vary(stage):
                break
            found = _repeated_stage_spot(data, at, call) or found
        if found is not None:
            yield found


def _repeated_stage_spot(data: interpreted_datasets.ConsumedDataset, at: int, call: ast.Call) -> Spot | None:
    """Return a map with long work, if its results are small.

    The number of files in a folder is unknown. The results are small if some thousand of them fit.
    """
    stage, wide = data.stages[at], interpreted_datasets.gives_batches(data.stages[:at])
    count = interpreted_datasets.row_count(data.stages[: at + 1])
    reads = (dataset_stages.first_long_op(one, ("read_file",)) for one in data.stages[: at + 1])
    read = any(reads) or data.names[0] == "TFRecordDataset"
    does = dataset_stages.first_long_op(
        stage, LONG_FUNCTIONS if read and not count else whole_pipelines.COSTLY_PREFIXES
    )
    each = _stage_output_bytes(stage, batched=bool(wide))
    if any(map(_is_model_call, stage.does)):
        does = "a model" if count or not read else does
        if each is None:  # a backbone has no more outputs than inputs
            given = interpreted_datasets.element_numbers(stage.before, batched=bool(wide))
            each = given * NUMBER_BYTES if given else None
    total = count or (max(ASSUMED_FILES, _largest_shuffle_buffer(data)) if read and wide is False else 0)
    size = total * each if each and wide is not None else 0
    if does is None or not 0 < size <= (MAX_CACHE_BYTES if count else MAX_FILE_CACHE_BYTES):
        return None
    small = f"all results take {format_number(size / 2**20)} MiB at most" if count else "its result is small"
    cure = Prescription("advice", Effect.EQUIVALENT, "put .cache() behind this map, if all results fit in memory")
    return spots.operation_spot(call, f"every epoch does {does} again for each element; {small}", cure)


def _largest_shuffle_buffer(one: interpreted_datasets.ConsumedDataset) -> int:
    """Return the elements of its largest shuffle buffer, a lower bound of the data set."""
    sizes = [s.given.get("buffer_size", 0).known for s in one.stages if s.name == "shuffle"]
    return max((n for n in sizes if isinstance(n, int)), default=0)


def _stage_output_bytes(stage: Stage, *, batched: bool) -> int | None:
    """Return the bytes of an element. Parts that the map passes through are in memory already."""
    there = {id(one) for one in interpreted_datasets.element_leaves(stage.before)}
    new = (one for one in interpreted_datasets.element_leaves(stage.after) if id(one) not in there)
    several = [interpreted_datasets.element_bytes(one, batched=batched) for one in new]
    return sum(n for n in several if n is not None) if None not in several else None


def _is_model_call(event: Event) -> bool:
    """Whether a Keras model runs in inference mode."""
    made = event.on is not None and event.on.kind == "keras" and event.on.name.endswith((".Model", ".Sequential"))
    return event.name == "__call__" and made and event.given.get("training").known is False


def _may_vary(stage: Stage) -> bool:
    """Whether two passes may give different results, or the code is unknown."""
    for one in stage.does:
        unknown = one.on is not None and one.on.kind == "unknown" and one.name.startswith(".")
        layer = one.name == "__call__" and not _is_model_call(one)
        last = one.name.rpartition(".")[2]
        drawn = ".random" in one.name or last.startswith(("random_", "sample_"))
        if unknown or layer or drawn or last in dataset_stages.PYTHON_OPS:
            return True
    return not stage.given.every or stage.given.every[0].kind not in dataset_stages.SCRIPT_KINDS


def repeated_map_work(source: Source) -> Iterator[Spot]:
    """Find the last such work of each pipeline that training iterates several times, in the text."""
    for flow in whole_pipelines.pipelines_of(source):
        if {"cache", "snapshot", "take"} & set(flow.names) or not {"map", "from_generator"} & set(flow.names):
            continue
        count = element_sizes.element_count(source, flow)
        found = [one for call in flow.calls if count and (one := _repeated_work_at(source, call, count)) is not None]
        if found and whole_pipelines.is_read_repeatedly(source, flow):
            yield found[-1]


def early_caches(source: Source) -> Iterator[Spot]:
    """Find caches that are followed by the same long work in every epoch."""
    for flow in whole_pipelines.pipelines_of(source) if call_index.index_of(source).calls_of("cache") else ():
        caches = [c for c in flow.calls if node_lookup.called_name(c) == "cache"]
        for call in flow.calls_after(caches[-1]) if caches else ():
            name = node_lookup.called_name(call)
            if name not in LATER_OPERATIONS or (name == "map" and not _is_repeatable_map(source, call)):
                break
            long = name == "map" and _long_map_work(source, call) is not None
            found = _early_cache(source, flow, caches[-1], call) if long else None
            if found is not None and whole_pipelines.is_read_repeatedly(source, flow):
                yield found
                break


def _is_repeatable_map(source: Source, call: ast.Call) -> bool:
    known = call.args and whole_pipelines.mapped_function(source, call) is not None
    return bool(known) and not repeatable_functions.may_vary_by_call(source, call.args[0])


def _early_cache(source: Source, flow: DatasetChain, cache: ast.Call, call: ast.Call) -> Spot | None:
    """Return ``cache`` if it should stand behind ``call``, whose output is certainly small enough."""
    function = whole_pipelines.mapped_function(source, call)
    reached = whole_pipelines.reached_statements(source, function) if function is not None else []
    inner = [node_lookup.called_name(c) for c in whole_pipelines.calls_in(reached)]
    first, *passing = [node_lookup.called_name(c) for c in flow.calls_before(cache)]
    count, numbers = element_sizes.element_count(source, flow), element_sizes.max_mapped_numbers(source, call)
    size = count * numbers * NUMBER_BYTES if count and numbers else None
    does = next((name for name in inner if name.startswith(whole_pipelines.READING_PREFIXES)), None)
    kept = "names only"
    named = first in NAME_SOURCES and PASSING_OPERATIONS.issuperset(passing) and "read_file" in inner
    if not named or does is None:
        kept, does = "elements before the work on them", next((n for n in inner if n.startswith(LONG_FUNCTIONS)), None)
        pictures = any(name.startswith(PICTURE_FUNCTIONS) for name in inner)  # may be much larger than their files
        if does is None or (pictures if size is None else size > MAX_CACHE_BYTES):
            return None
    behind = "put .cache() behind the map that does it, if its results fit in memory"
    says = f"this cache keeps {kept}: every epoch does {does} again for each element"
    return spots.operation_spot(cache, says, Prescription("advice", Effect.EXACT, behind))


def _repeated_work_at(source: Source, call: ast.Call, count: int) -> Spot | None:
    name, place = node_lookup.called_name(call), call_index.operation_range(call)
    does = numbers = None
    if scope_names.enclosing_loops(source, call):
        return None  # one of several maps; the cache belongs after the last one
    if name == "map":
        does, numbers = _long_map_work(source, call), element_sizes.max_mapped_numbers(source, call)
    elif name == "from_generator":
        does, numbers = _generator_file_reads(source, call), element_sizes.signature_numbers(source, call)
        given = node_lookup.argument_value(call, "generator", 0)
        place = (edits.node_start(given), edits.node_end(given)) if given is not None else place
    size = count * numbers * NUMBER_BYTES if numbers is not None else MAX_CACHE_BYTES + 1
    if does is None or size > MAX_CACHE_BYTES:
        return None
    made, exact = dataset_edits.add_cache(source, edits.node_end(call.func)[0], None, *({name} - {"map"}))
    says = f"every epoch does {does} again for each element; all results take {format_number(size / 2**20)} MiB at most"
    effect = Effect.EXACT if exact else Effect.EQUIVALENT
    cure = Prescription("edit", effect, f"put .cache() behind this {name}", edits=tuple(made))
    return Spot(*place, says, cure) if made else None


def _long_map_work(source: Source, call: ast.Call) -> str | None:
    operation = call.args and dataset_chains.is_operation(call)
    found = whole_pipelines.function_work(source, call.args[0], call) if operation else None
    return found.says if found is not None and not found.python else None


def _generator_file_reads(source: Source, call: ast.Call) -> str | None:
    """Return the function with which a generator reads files, if any."""
    given = node_lookup.argument_value(call, "generator", 0)
    made = node_lookup.function_named(source, given.id, call) if isinstance(given, ast.Name) else None
    reached = whole_pipelines.reached_statements(source, made) if made is not None else []
    for inner in whole_pipelines.calls_in(reached):
        name = scope_names.resolved_name(source, inner.func)
        if name in ("os.open", "numpy.load") or node_lookup.called_name(inner) in FILE_READERS - {"load", "get"}:
            return name
    return None
