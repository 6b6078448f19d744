"""Lint rules on the interpreted stages of data sets: per-element, sequential and repeated work.

They supplement the lint rules that search call chains in the text.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from slowtrain.script.interpreter.domain.abstract_values import Value
from slowtrain.script.interpreter.domain.call_events import Event, Stage
from slowtrain.script.lint_rules.input import repeated_work, shuffle_buffers, tiny_maps
from slowtrain.script.pipelines import interpreted_datasets, whole_pipelines
from slowtrain.script.text.source_file import Source

SCRIPT_KINDS = ("function", "method", "graph", "class", "partial", "object")
MIN_EPOCH_ROWS = 1000  # rows per epoch. At about 10 µs per call, fewer take some ten ms.
MIN_BUFFER_ELEMENTS = 64  # elements, about a batch
QUIET_CALLS = frozenset(
    {".set_shape", ".items", ".keys", ".values", ".get", ".pop", ".append", ".update", "loop", "format"}
)
PYTHON_OPS = ("py_function", "numpy_function")
MIN_BUFFER_EPOCHS = 4  # elements of the buffer, in multiples of an epoch
ASSUMED_FILES = 4096  # assumed if unknown
# For ASSUMED_FILES, 256 KiB each. A compressed image or some seconds of sound have that size in their file, and the
# system caches such files in memory anyway. An image of 224 pixels has 147 KiB.
MAX_FILE_CACHE_BYTES = 2**30
MIN_FILL_ELEMENTS = 10_000  # elements beyond an epoch. At 1.6 µs each, they take some ten ms.
KEY_FILL_FACTOR = 2  # factor for plain numbers, at 0.7 µs each
# Records of files: 200 bytes took 5 µs, 5,000 bytes took 20 µs, with the files in memory. So many records take 0.1 s
# or more. If an epoch needs no more than that itself, the work of the input doubles.
MIN_READ_FILL_ELEMENTS = 20_000


# They release the interpreter lock while they decode.
UNLOCKED_DECODERS = frozenset({"cv2.imread", "cv2.imdecode"})


@dataclass(frozen=True)
class SlowStage:
    """A call of an operation, and what is slow about it."""

    call: ast.Call
    says: str
    early: bool = False  # a shuffle that could stand before a map


def stages_not_known(known: Iterable[ast.Call], found: Iterable[SlowStage]) -> Iterator[SlowStage]:
    """Yield the first finding of each call that is not in ``known``."""
    seen = set(known)
    for one in found:
        if one.call not in seen:
            seen.add(one.call)
            yield one


def cheap_element_maps(source: Source) -> Iterator[SlowStage]:
    """Find maps with only cheap ops over single small rows that are batched directly afterwards."""
    for one in interpreted_datasets.datasets_of(source) if ".map" in source.text else ():
        if "cache" in one.names or "snapshot" in one.names:
            continue
        for at, stage in enumerate(one.stages):
            if stage.name != "batch" or interpreted_datasets.gives_batches(one.stages[:at]) is not False:
                continue
            maps = _maps_of_rows(one.stages[:at])
            if (
                not maps
                or not all(map(_is_cheap, maps))
                or (interpreted_datasets.row_count(one.stages[:at]) or MIN_EPOCH_ROWS) < MIN_EPOCH_ROWS
            ):
                continue
            for each in maps:
                row = _row_description(each.before) or ("line of text" if _runs_op(each, "decode_csv") else None)
                if row is not None and (call := interpreted_datasets.stage_call(source, each)) is not None:
                    yield SlowStage(call, row)


def _maps_of_rows(stages: tuple[Stage, ...]) -> list[Stage]:
    """Return the maps of single elements after their source; empty if another operation stands between them."""
    found: list[Stage] = []
    for one in stages[:0:-1]:
        if one.name == "unbatch" or interpreted_datasets.reads_by_record(one):
            break
        if one.name == "map":
            found.append(one)
        elif one.name not in ("shuffle", "repeat", "take", "skip", "with_options", "prefetch"):
            return []
    return found


def _runs_op(stage: Stage, op: str) -> bool:
    return any(one.name.rpartition(".")[2] == op for one in stage.does)


def large_shuffle_buffers(source: Source) -> Iterator[tuple[SlowStage, int]]:
    """Find buffers after maps, with their minimum size in bytes if known."""
    for one in interpreted_datasets.datasets_of(source) if ".shuffle" in source.text else ():
        for at, stage in enumerate(one.stages):
            maps = _maps_of_rows(one.stages[:at]) if stage.name == "shuffle" else []
            if not maps or interpreted_datasets.gives_batches(one.stages[:at]) is not False:
                continue
            held, there = stage.given.get("buffer_size", 0).known, interpreted_datasets.row_count(one.stages[:at])
            each = sum(
                interpreted_datasets.element_bytes(leaf, batched=False) or 0
                for leaf in interpreted_datasets.element_leaves(stage.before)
                if leaf.dtype
            )
            if (
                each
                and isinstance(held, int)
                and held > 0
                and (call := interpreted_datasets.stage_call(source, stage)) is not None
            ):
                many = min(held, there) if there and "repeat" not in one.names else held
                yield SlowStage(call, "", early=True), many * each


def _is_cheap(stage: Stage) -> bool:
    """Whether a function of the script only runs ops that take microseconds."""
    if not stage.given.every or stage.given.every[0].kind not in SCRIPT_KINDS or not stage.does:
        return bool(stage.given.every) and stage.given.every[0].kind == "function"
    return all(_is_quick_event(one) for one in stage.does)


def _is_quick_event(event: Event) -> bool:
    if event.on is not None and event.on.kind in (*SCRIPT_KINDS, "object") and not event.name.startswith("."):
        return True
    last = event.name.rpartition(".")[2]
    if event.name.startswith("tensorflow."):
        return last in tiny_maps.CHEAP_FUNCTIONS or last in tiny_maps.DRAWING_FUNCTIONS
    return event.name in QUIET_CALLS or event.name in tiny_maps.CHEAP_BUILTINS


def _row_description(held: Value) -> str | None:
    """Return a description of a single element if it is certainly small; None otherwise."""
    several = list(interpreted_datasets.element_leaves(held))
    if any(one.shape is None or sum(n != 1 for n in one.shape) > 1 for one in several):
        return None
    many = held.kind == "tuple" and any(None in one.items for one in held.items.values() if one.kind == "dict")
    count = interpreted_datasets.element_numbers(held, batched=False)
    if count is None or not tiny_maps.MIN_NUMBERS <= count <= tiny_maps.MAX_NUMBERS:
        return None
    return "row" if many else f"row of {count} numbers"


def sequential_maps(source: Source) -> Iterator[SlowStage]:
    """Find sequential maps with work that is worth a thread."""
    several = interpreted_datasets.datasets_of(source) if ".map" in source.text else ()
    parallel = {stage.given.node for one in several for stage in one.stages if not _runs_sequentially(stage)}
    for one in several:
        if (
            "cache" in one.names
            or (interpreted_datasets.row_count(one.stages) or MIN_BUFFER_ELEMENTS) < MIN_BUFFER_ELEMENTS
        ):
            continue
        for at, stage in enumerate(one.stages):
            if at and interpreted_datasets.gives_batches(one.stages[:at]):
                break  # the step hides one map of whole batches
            node = stage.given.node
            does = None
            if stage.name == "map" and node not in parallel:
                does = _first_long_op(stage, whole_pipelines.COSTLY_PREFIXES) or _unlocked_decoder(stage)
            if does is not None and (call := interpreted_datasets.stage_call(source, stage)) is not None:
                yield SlowStage(call, f"map does {does} for one element at a time")


def _runs_sequentially(stage: Stage) -> bool:
    asked = stage.given.get("num_parallel_calls", 1)
    return len(stage.given.every) == 1 or asked.kind == "none" or asked.known == 1


def _unlocked_decoder(stage: Stage) -> str | None:
    """Return the C decoder that Python calls, if nothing is random. Several threads can run it at once."""
    names = [one.name for one in stage.does]
    drawn = any(name.startswith(("numpy.random", "random.")) for name in names)
    return next((name for name in names if name in UNLOCKED_DECODERS), None) if not drawn else None


def _first_long_op(stage: Stage, names: tuple[str, ...]) -> str | None:
    """Return the first op with one of these names in a function without Python."""
    lasts = [(one.name.rpartition(".")[2], one.name) for one in stage.does]
    if any(last in PYTHON_OPS for last, _ in lasts):
        return None
    return next((last for last, full in lasts if full.startswith("tensorflow.") and last.startswith(names)), None)


def unprefetched_datasets(source: Source) -> Iterator[SlowStage]:
    """Find the last operations of data sets with work and without prefetching."""
    for one in interpreted_datasets.datasets_of(source):
        working = [at for at, name in enumerate(one.names) if name in whole_pipelines.WORKING_OPERATIONS]
        if not working or {"prefetch", "cache", "apply"} & set(one.names[working[-1] :]):
            continue
        last = one.stages[-1]
        if (interpreted_datasets.row_count(one.stages) or MIN_BUFFER_ELEMENTS) >= MIN_BUFFER_ELEMENTS and (
            call := interpreted_datasets.stage_call(source, last)
        ) is not None:
            says = f"the pipeline ends in {last.name}: nothing makes the next batch while the step runs"
            yield SlowStage(call, says)


def slow_buffer_fills(source: Source) -> Iterator[SlowStage]:
    """Find buffers of slow elements, and buffers that hold many times the elements used before a refill."""
    for one in interpreted_datasets.datasets_of(source) if ".shuffle" in source.text else ():
        for at, stage in enumerate(one.stages):
            if stage.name != "shuffle" or (call := interpreted_datasets.stage_call(source, stage)) is None:
                continue
            held, there = stage.given.get("buffer_size", 0).known, interpreted_datasets.row_count(one.stages[:at])
            held = min(held, there or held) if isinstance(held, int) else there
            before = one.stages[:at]
            if {"cache", "snapshot"} & set(one.names) or (held is not None and held <= MIN_BUFFER_ELEMENTS):
                continue
            does = next(
                (
                    w
                    for s in _maps_of_rows(before)
                    if (w := _first_long_op(s, shuffle_buffers.LONG_FUNCTIONS)) is not None
                ),
                None,
            )
            names = [s.name for s in before]
            repeated = "repeat" in names[names.index("map") :] if "map" in names else False  # as in shuffling
            if does is not None and not repeated and interpreted_datasets.gives_batches(before) is not True:
                says = f"each epoch begins with {does} for every element of this buffer, before its first step"
                yield SlowStage(call, says, early=True)
            elif held is not None and one.begun > 1 and not interpreted_datasets.gives_batches(before):
                used = (
                    interpreted_datasets.row_count(one.stages, one.most)
                    if one.most or "take" in one.names[at:]
                    else None
                )
                if used and held >= _wasteful_buffer_size(before, used):
                    most = "" if there else "up to "
                    says = f"each epoch fills this buffer with {most}{held} elements and takes {used} of them"
                    yield SlowStage(call, says)


def _wasteful_buffer_size(stages: tuple[Stage, ...], used: int) -> int:
    """Return the buffer size from which filling it costs too much for the used elements."""
    records = f".{stages[0].name}" in interpreted_datasets.RECORD_DATASETS or any(
        interpreted_datasets.reads_by_record(one) for one in stages
    )
    keys = KEY_FILL_FACTOR if {one.name for one in stages} <= {"range", "repeat"} else 1
    return (
        max(used, MIN_READ_FILL_ELEMENTS) if records else max(MIN_BUFFER_EPOCHS * used, used + keys * MIN_FILL_ELEMENTS)
    )


def repeated_stages(source: Source, *, cached: bool) -> Iterator[tuple[SlowStage, int | None]]:
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
            read = _first_long_op(stage, ("read_file",)) or one.names[0] == "TFRecordDataset"
            does = _long_op(stage) if count or not read else _first_long_op(stage, repeated_work.LONG_FUNCTIONS)
            wide = interpreted_datasets.gives_batches(one.stages[:at])
            each = _stage_output_bytes(stage, batched=bool(wide))
            if each is None and _runs_keras_model(stage):  # a backbone has no more outputs than inputs
                given = interpreted_datasets.element_numbers(stage.before, batched=bool(wide))
                each = given * repeated_work.NUMBER_BYTES if given else None
            total = count or (max(ASSUMED_FILES, _largest_shuffle_buffer(one)) if read and wide is False else 0)
            size = total * each if each and wide is not None else 0
            if does is not None and 0 < size <= (repeated_work.MAX_CACHE_BYTES if count else MAX_FILE_CACHE_BYTES):
                found = SlowStage(call, does), size if count else None
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
    return "a model" if _runs_keras_model(stage) else _first_long_op(stage, whole_pipelines.COSTLY_PREFIXES)


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
        if unknown or layer or ".random" in one.name or last.startswith(("random_", "sample_")) or last in PYTHON_OPS:
            return True
    return not stage.given.every or stage.given.every[0].kind not in SCRIPT_KINDS
