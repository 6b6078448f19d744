"""What a process has to pack, and the result that it leaves for the process that started it."""

from __future__ import annotations

import json
import linecache
import os
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from slowtrain.capture.packing import element_records
from slowtrain.capture.packing.shard_writer import SHARD_BYTES, SayProgress, ShardWriter
from slowtrain.errors import InputError
from slowtrain.model.packing import ElementForm, PackedFolder, PackingSample
from slowtrain.script.fixes.input import packed_reading

SAMPLE_S = 4.0  # of making elements; enough for some hundred of those that are worth packing
MAX_SAMPLE_BYTES = 256 << 20
MIN_SAMPLE_ROWS = 2
RESERVED_DISK_SHARE = 0.05  # of the disk stays free
MAX_MESSAGE_CHARACTERS = 300
READER_FILE = "<read_packed>"
NODE_NAMES = re.compile(r"\{\{[^{}]*\}\}|\[\[.*?\]\]|\[Op:.*?\]")  # that TensorFlow adds to what an op says
OWN_ERROR = f"{InputError.__module__}.{InputError.__name__}: "  # in the traceback that TensorFlow gives as text


Row = tuple[tuple[Any, ...], int]  # the values of a record, and the number of its elements


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

    ``form`` is None for a sample, which finds it out; ``limit`` is the largest number of elements of a sample.
    """

    output: str
    plan_id: str
    form: ElementForm | None = None
    elements: int | None = None
    shard_bytes: int = SHARD_BYTES
    limit: int | None = None


def pack_dataset(dataset: Any, job: PackingJob, say: SayProgress = lambda _elements, _bytes: None) -> PackedFolder:
    """Writes all elements of ``dataset``; continues where an earlier process stopped.

    Raises ``InputError`` if an element cannot be made, the data have no end, or the disk is full.
    """
    form = job.form
    assert form is not None
    if element_records.describe_elements(dataset.element_spec) != form:
        raise InputError("the data set yields other elements than those of the plan; make the plan again")
    length = known_length(dataset)
    with ShardWriter(Path(job.output), job.plan_id, {"form": asdict(form)}, job.shard_bytes, say) as writer:
        limit = _writable_bytes(writer.part)
        begun_bytes = writer.written_bytes
        for values, count in made_rows(dataset, form, writer.stored):
            writer.write(element_records.encode_record(form, values), count)
            if length is None and writer.written_bytes - begun_bytes > limit:
                raise InputError(
                    f"{writer.stored:,} elements fill the disk and the data set, whose length is unknown, goes on; "
                    "end it with take(N), or free disk space and run the same command again"
                )
        if job.elements is not None and writer.stored_and_open != job.elements:
            raise InputError(
                f"the data set has {writer.stored_and_open:,} elements instead of the {job.elements:,} of the plan; "
                "make the plan again"
            )
        return writer.finish()


def known_length(dataset: Any) -> int | None:
    """The number of elements, None if unknown. Raises ``InputError`` for a data set without end."""
    length = int(dataset.cardinality())
    if length == tf.data.INFINITE_CARDINALITY:
        raise InputError("the data set has no end, so it cannot be packed; pack in front of repeat()")
    return length if length >= 0 else None


def made_rows(dataset: Any, form: ElementForm, start: int = 0) -> Iterator[Row]:
    """The rows of :func:`element_records.element_rows`. Raises ``ElementFailure`` if the source fails."""
    made = start
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
    form = element_records.describe_elements(dataset.element_spec)
    length = known_length(dataset)
    part = dataset if job.limit is None else dataset.take(job.limit)
    first = _first_rows(part, form)
    rows, is_whole = first.rows, first.is_whole
    elements = sum(count for _, count in rows)
    if not elements:
        raise InputError("the data set is empty; there is nothing to pack")
    again = made_rows(part if is_whole else part.take(elements), form)
    equal = count_equal_elements(rows, again)
    if equal != elements:
        raise InputError(
            f"element {equal:,} differs between two passes, so packing it would change training; pack in front of what "
            "draws at random or changes the order"
        )
    begun = time.perf_counter()
    folder = Path(job.output)
    with ShardWriter(folder, job.plan_id, {"form": asdict(form)}, job.shard_bytes) as writer:
        for values, count in rows:
            writer.write(element_records.encode_record(form, values), count)
        packed = writer.finish()
    write_us = 1e6 * (time.perf_counter() - begun) / elements
    read = reading_dataset(form, packed)
    verified = count_equal_elements(rows, made_rows(read, form))
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


def reading_dataset(form: ElementForm, packed: PackedFolder) -> Any:
    """The packed elements, read by the same text that a script gets."""
    elements = packed_reading.PackedElements(packed.folder, len(packed.shards), packed.elements)
    text = packed_reading.reading_function(form, [elements])
    names: dict[str, Any] = {"tf": tf}
    # AutoGraph looks for the source of each function.
    linecache.cache[READER_FILE] = (len(text), None, text.splitlines(keepends=True), READER_FILE)
    exec(compile(text, READER_FILE, "exec"), names)  # noqa: S102  our own text, the one that is proposed
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
    read = reading_dataset(form, packed)
    for _ in read.take(form.block):  # builds and warms up the reading pipeline
        pass
    forget_cached_files([Path(packed.folder, shard.file) for shard in packed.shards])
    batch = max(min(packed.elements // 4, 64), 1)
    begun, first_s = time.perf_counter(), 0.0
    for number, _ in enumerate(read.batch(batch)):
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
