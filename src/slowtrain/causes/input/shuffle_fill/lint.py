"""Where the cause input/shuffle-fill shows in a script's text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.fixes.input import dataset_edits
from slowtrain.script.interpreter.domain.call_events import Stage
from slowtrain.script.lint_rules import dataset_stages, shuffle_buffers, spots
from slowtrain.script.pipelines import interpreted_datasets
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source

MIN_BUFFER_EPOCHS = 4  # elements of the buffer, in multiples of an epoch
MIN_FILL_ELEMENTS = 10_000  # elements beyond an epoch. At 1.6 µs each, they take some ten ms.
KEY_FILL_FACTOR = 2  # factor for plain numbers, at 0.7 µs each
# Records of files: 200 bytes took 5 µs, 5,000 bytes took 20 µs, with the files in memory. So many records take 0.1 s
# or more. If an epoch needs no more than that itself, the work of the input doubles.
MIN_READ_FILL_ELEMENTS = 20_000


def find_spots(source: Source) -> Iterable[Spot]:
    """Buffers of elements whose map takes long, which each epoch fills again."""
    known = [one for one in shuffle_buffers.buffers_after_maps(source) if one.does is not None]
    for one in known:
        made = tuple(dataset_edits.shuffle_before_map(source, edits.node_end(one.call.func)[0]))
        says = "shuffle names or records before the expensive map"
        cure = Prescription("edit", Effect.EQUIVALENT, says, edits=made)
        says = f"each epoch begins with {one.does} for every element of this buffer, before its first step"
        yield spots.operation_spot(one.call, says, cure)
    for more in dataset_stages.stages_not_known([one.call for one in known], slow_buffer_fills(source)):
        made = tuple(dataset_edits.shuffle_before_map(source, edits.node_end(more.call.func)[0])) if more.early else ()
        says = "shuffle names or records before the expensive map"
        if not more.early:
            says = "take every epoch from one iterator of the repeated data set: .repeat().shuffle(n), and "
            says += "steps_per_epoch in place of take(), or iter() once"
        yield spots.operation_spot(more.call, more.says, Prescription("edit", Effect.EQUIVALENT, says, edits=made))


def slow_buffer_fills(source: Source) -> Iterator[dataset_stages.SlowStage]:
    """Find buffers of slow elements, and buffers that hold many times the elements used before a refill."""
    for one in interpreted_datasets.datasets_of(source) if ".shuffle" in source.text else ():
        for at, stage in enumerate(one.stages):
            if stage.name != "shuffle" or (call := interpreted_datasets.stage_call(source, stage)) is None:
                continue
            held, there = stage.given.get("buffer_size", 0).known, interpreted_datasets.row_count(one.stages[:at])
            held = min(held, there or held) if isinstance(held, int) else there
            before = one.stages[:at]
            if {"cache", "snapshot"} & set(one.names) or (
                held is not None and held <= dataset_stages.MIN_BUFFER_ELEMENTS
            ):
                continue
            does = next(
                (
                    w
                    for s in dataset_stages.maps_of_rows(before)
                    if (w := dataset_stages.first_long_op(s, shuffle_buffers.LONG_FUNCTIONS)) is not None
                ),
                None,
            )
            names = [s.name for s in before]
            repeated = "repeat" in names[names.index("map") :] if "map" in names else False  # as in shuffling
            if does is not None and not repeated and interpreted_datasets.gives_batches(before) is not True:
                says = f"each epoch begins with {does} for every element of this buffer, before its first step"
                yield dataset_stages.SlowStage(call, says, early=True)
            elif held is not None and one.begun > 1 and not interpreted_datasets.gives_batches(before):
                used = (
                    interpreted_datasets.row_count(one.stages, one.most)
                    if one.most or "take" in one.names[at:]
                    else None
                )
                if used and held >= _wasteful_buffer_size(before, used):
                    most = "" if there else "up to "
                    says = f"each epoch fills this buffer with {most}{held} elements and takes {used} of them"
                    yield dataset_stages.SlowStage(call, says)


def _wasteful_buffer_size(stages: tuple[Stage, ...], used: int) -> int:
    """Return the buffer size from which filling it costs too much for the used elements."""
    records = f".{stages[0].name}" in interpreted_datasets.RECORD_DATASETS or any(
        interpreted_datasets.reads_by_record(one) for one in stages
    )
    keys = KEY_FILL_FACTOR if {one.name for one in stages} <= {"range", "repeat"} else 1
    return (
        max(used, MIN_READ_FILL_ELEMENTS) if records else max(MIN_BUFFER_EPOCHS * used, used + keys * MIN_FILL_ELEMENTS)
    )
