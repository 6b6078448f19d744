"""What a process has to pack, and the result that it leaves for the process that started it."""

from __future__ import annotations

import itertools
import json
import linecache
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from slowtrain.capture.packing import element_records
from slowtrain.capture.packing.element_records import Row
from slowtrain.capture.packing.shard_writer import SHARD_BYTES, SayProgress, ShardWriter
from slowtrain.errors import InputError
from slowtrain.model.packing import ARRAY_RECORD, TFRECORD, ElementForm, PackedFolder, PackingSample
from slowtrain.script.fixes.input import grain_reading, packed_reading

SAMPLE_S = 4.0  # of making elements; enough for some hundred of those that are worth packing
MAX_SAMPLE_BYTES = 256 << 20
MIN_SAMPLE_ROWS = 2
RESERVED_DISK_SHARE = 0.05  # of the disk stays free
MAX_MESSAGE_CHARACTERS = 300
READER_FILE = "<read_packed>"
NODE_NAMES = re.compile(r"\{\{[^{}]*\}\}|\[\[.*?\]\]|\[Op:.*?\]")  # that TensorFlow adds to what an op says
OWN_ERROR = f"{InputError.__module__}.{InputError.__name__}: "  # in the traceback that TensorFlow gives as text


class ElementFailure(InputError):
    """The source cannot make the element of this number, or one of the block that begins with it."""

    def __init__(self, element: int, block: int, reason: str) -> None:
        last = element + block - 1
        what = f"element {element:,}" if block == 1 else f"one of the elements {element:,} to {last:,}"
        super().__init__(f"{what} cannot be made: {reason}; finished shards are kept")
        self.element, self.block = element, block


@dataclass(frozen=True)
class PackingJob:
    """``output`` is the folder to write. ``elements``: their number, None if unknown.

    ``form`` is None for a sample, which finds it out for files of ``file_format`` and ``block`` elements in a record;
    0 leaves that to their size. ``limit`` is the largest number of elements of a sample. ``equal_shapes``: the script
    makes batches of the elements, so a shape that all of a sample have is the shape of all.
    """

    output: str
    plan_id: str
    form: ElementForm | None = None
    elements: int | None = None
    shard_bytes: int = SHARD_BYTES
    limit: int | None = None
    file_format: str = TFRECORD
    block: int = 0
    equal_shapes: bool = False


def pack_datasets(
    datasets: Iterable[Any], job: PackingJob, say: SayProgress = lambda _elements, _bytes: None
) -> PackedFolder:
    """Writes all elements of the data sets, one after the other; continues where an earlier process stopped.

    No shard holds elements of two data sets.

    Raises ``InputError`` if an element cannot be made, the data have no end, or the disk is full.
    """
    form = job.form
    assert form is not None
    with shard_writer_for(job, form, say) as writer:
        limit = writer.written_bytes + _writable_bytes(writer.part)
        left = () if writer.is_complete else itertools.islice(datasets, len(writer.groups), None)
        for dataset in left:
            _write_group(dataset, form, writer, limit)
        return finish_packing(writer, job.elements)


def shard_writer_for(
    job: PackingJob, form: ElementForm, say: SayProgress = lambda _elements, _bytes: None
) -> ShardWriter:
    header = {"form": asdict(form)}
    return ShardWriter(Path(job.output), job.plan_id, header, job.shard_bytes, say, form.file_format)


def _write_group(dataset: Any, form: ElementForm, writer: ShardWriter, limit_bytes: float) -> None:
    """Writes the elements that are missing of the group that is ``dataset``. ``limit_bytes``: of all files together."""
    if not element_records.holds_elements(form, dataset.element_spec):
        raise InputError("the data set yields other elements than those of the plan; make the plan again")
    length, first = known_length(dataset), sum(writer.groups)
    for values, count in made_rows(dataset, form, writer.stored - first, first):
        writer.write(element_records.encode_record(form, values), count)
        if length is None and writer.written_bytes > limit_bytes:
            raise InputError(
                f"{writer.stored:,} elements fill the disk and the data set, whose length is unknown, goes on; "
                "end it with take(N), or free disk space and run the same command again"
            )
    writer.end_group()


def finish_packing(writer: ShardWriter, elements: int | None) -> PackedFolder:
    """Gives the folder its name. Raises ``InputError`` if it does not hold as many elements as the plan says."""
    if elements is not None and writer.stored_and_open != elements:
        raise InputError(
            f"the data set has {writer.stored_and_open:,} elements instead of the {elements:,} of the plan; "
            "make the plan again"
        )
    return writer.finish()


def known_length(dataset: Any) -> int | None:
    """The number of elements, None if unknown. Raises ``InputError`` for a data set without end."""
    length = int(dataset.cardinality())
    if length == tf.data.INFINITE_CARDINALITY:
        raise InputError("the data set has no end, so it cannot be packed; pack in front of repeat()")
    return length if length >= 0 else None


def made_rows(dataset: Any, form: ElementForm, start: int = 0, first: int = 0) -> Iterator[Row]:
    """The rows of :func:`element_records.element_rows`. Raises ``ElementFailure`` if the source fails.

    ``first``: the number of the data set's first element among all.
    """
    made = first + start
    try:
        for values, count in element_records.element_rows(dataset, form, start):
            yield values, count
            made += count
    except (OSError, ValueError, tf.errors.OpError) as error:
        raise ElementFailure(made, form.block, failure_line(error)) from None


def failure_line(error: BaseException) -> str:
    """The line of an error that says what happened: the exception's own in a message that holds a traceback."""
    text = NODE_NAMES.sub("", str(getattr(error, "message", error)))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    raised = [line for line in lines if line.split(":")[0].endswith(("Error", "Exception"))]
    said = (raised or lines or [type(error).__name__])[0].removeprefix(OWN_ERROR)
    return said[:MAX_MESSAGE_CHARACTERS].rstrip()


def _writable_bytes(folder: Path) -> float:
    """Bytes that may be written in this folder before the disk counts as full."""
    disk = os.statvfs(folder)
    return max(disk.f_bavail - RESERVED_DISK_SHARE * disk.f_blocks, 0) * disk.f_frsize


# -- a sample


@dataclass(frozen=True)
class SampledDataset:
    """The form and the figures of a data set; ``is_whole`` if the sample reached its end."""

    form: ElementForm
    sample: PackingSample
    elements: int | None
    is_whole: bool


def sample_dataset(dataset: Any, job: PackingJob) -> SampledDataset:
    """Packs the first elements into ``job.output``, reads them back, compares and times them.

    Raises ``InputError`` if the data set cannot be packed.
    """
    form = element_records.describe_elements(dataset.element_spec, job.file_format, job.block)
    length = known_length(dataset)
    part = dataset if job.limit is None else dataset.take(job.limit)
    first = _first_rows(part, form)
    rows, is_whole = first.rows, first.is_whole
    elements = sum(count for _, count in rows)
    if not elements:
        raise InputError("the data set is empty; there is nothing to pack")
    if job.equal_shapes:
        form, rows = element_records.with_known_shapes(form, rows)
    again = made_rows(part if is_whole else part.take(elements), form)
    equal = count_equal_elements(rows, again)
    if equal != elements:
        raise InputError(
            f"element {equal:,} differs between two passes, so packing it would change training; pack in front of what "
            "draws at random or changes the order"
        )
    begun = time.perf_counter()
    with shard_writer_for(job, form) as writer:
        for values, count in rows:
            writer.write(element_records.encode_record(form, values), count)
        packed = writer.finish()
    write_us = 1e6 * (time.perf_counter() - begun) / elements
    verified = count_equal_elements(rows, packed_rows(form, packed))
    if verified != elements:
        raise InputError(f"element {verified:,} read back differs from the one written; please report this")
    read_us = _read_from_disk_us(packed, form)
    sample = PackingSample(
        elements, packed.bytes / elements, first.source_us, first.source_cpu_us, read_us, write_us, verified
    )
    is_whole = is_whole and (job.limit is None or elements < job.limit or length == elements)
    return SampledDataset(form, sample, elements if is_whole else length, is_whole)


@dataclass(frozen=True)
class _FirstRows:
    """The first records of a data set, the time to make an element of them, and whether these are all."""

    rows: list[Row]
    source_us: float
    source_cpu_us: float
    is_whole: bool


def _first_rows(dataset: Any, form: ElementForm) -> _FirstRows:
    rows: list[Row] = []
    size, is_whole = 0, True
    begun = marks = (time.perf_counter(), time.process_time())
    for values, count in made_rows(dataset, form):
        if not rows:
            marks = (time.perf_counter(), time.process_time())
        rows.append((values, count))
        size += sum(len(v) if isinstance(v, bytes) else v.nbytes for v in values)
        ended = time.perf_counter() - begun[0] > SAMPLE_S or size > MAX_SAMPLE_BYTES
        if ended and len(rows) >= MIN_SAMPLE_ROWS:
            is_whole = False
            break
    timed = sum(count for _, count in rows[1:])  # the first record also pays for starting the pipeline
    if not timed:
        marks, timed = begun, sum(count for _, count in rows)
    wall_s, cpu_s = time.perf_counter() - marks[0], time.process_time() - marks[1]
    return _FirstRows(rows, 1e6 * wall_s / max(timed, 1), 1e6 * cpu_s / max(timed, 1), is_whole)


def reading_dataset(form: ElementForm, packed: PackedFolder, source: Any = None) -> Any:
    """The packed elements, read by the same text that a script gets. ``source``: the data set that they replace."""
    text = packed_reading.reading_function(form, [packed])
    names: dict[str, Any] = {"tf": tf}
    # AutoGraph looks for the source of each function.
    linecache.cache[READER_FILE] = (len(text), None, text.splitlines(keepends=True), READER_FILE)
    exec(compile(text, READER_FILE, "exec"), names)  # noqa: S102  our own text, the one that is proposed
    return names[packed_reading.READER_NAME](source)


def packed_rows(form: ElementForm, packed: PackedFolder) -> Iterator[Row]:
    """The packed elements as rows, read by the same text that a script gets."""
    if form.file_format == ARRAY_RECORD:
        elements = grain_elements(form, packed)
        found = (tuple(tf.nest.flatten(elements[number])) for number in range(len(elements)))
        return ((values, len(values[0]) if form.block > 1 else 1) for values in found)
    return made_rows(reading_dataset(form, packed), form)


def grain_elements(form: ElementForm, packed: PackedFolder) -> Any:
    """The packed elements as a data set of Grain, or as a ``PyDataset`` of batches, by the text that a script gets."""
    names: dict[str, Any] = {}
    exec(grain_reading.reading_text(form, packed), names)  # noqa: S102  our own text, the one that is proposed
    return names[packed_reading.READER_NAME]()


def count_equal_elements(rows: list[Row], again: Iterator[Row]) -> int:
    """The number of elements before the first record that differs; less than all if ``again`` goes on."""
    equal = 0
    for values, count in rows:
        other = next(again, ((), 0))
        if other[1] != count or not all(_same_bits(one, two) for one, two in zip(values, other[0], strict=True)):
            return equal
        equal += count
    return equal if next(again, None) is None else equal - 1


def _same_bits(one: Any, two: Any) -> bool:
    if isinstance(one, bytes) or isinstance(two, bytes):
        return bool(one == two)
    one, two = np.asarray(one), np.asarray(two)
    return bool(one.dtype == two.dtype and one.shape == two.shape and one.tobytes() == two.tobytes())


def _read_from_disk_us(packed: PackedFolder, form: ElementForm) -> float:
    """µs to read an element from the disk: the system is asked to forget the files first."""
    batch = max(min(packed.elements // 4, 64), 1)
    if form.file_format == ARRAY_RECORD:
        elements = grain_elements(form, packed)
        batches = packed_rows(form, packed) if form.block > 1 else elements.to_iter_dataset().batch(batch)
        batch = form.block if form.block > 1 else batch
    else:
        read = reading_dataset(form, packed)
        for _ in read.take(form.block):  # builds and warms up the reading pipeline
            pass
        batches = read.batch(batch)
    forget_cached_files([Path(packed.folder, shard.file) for shard in packed.shards])
    begun, first_s = time.perf_counter(), 0.0
    for number, _ in enumerate(batches):
        first_s = time.perf_counter() if number == 0 else first_s
    end_s = time.perf_counter()
    if packed.elements > batch:  # the first batch also pays for starting the pipeline
        return 1e6 * (end_s - first_s) / (packed.elements - batch)
    return 1e6 * (end_s - begun) / packed.elements


def forget_cached_files(paths: list[Path]) -> None:
    """Asks the system to drop the files from memory; they have to be on the disk already."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


# -- between processes


def write_result(path: str, result: Mapping[str, Any]) -> None:
    """Leaves the result of this process, in one step."""
    temporary = Path(path + ".tmp")
    temporary.write_text(json.dumps(result), encoding="utf-8")
    temporary.replace(path)
