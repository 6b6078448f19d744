"""The allocator's record at measured batches, and the requests that it predicts at a batch that was never run.

The record holds every request and release of memory that TensorFlow's profiler noted, in order. At another batch, each
size is a line through measurements at two batches. A request is matched in the other record by its op, its kind and its
position among the op's requests. It keeps its size if it has no op name (input buffers, folded constants) or the other
record lacks the op (a copy that happens only if two threads meet), and the other record has that size. Otherwise, or if
its shape contains the batch, it scales with the batch. So does a request that comes once per sample. No size decreases
with the batch.

If no request has a name, as in XLA's programs, requests are matched by position from the end: the same script requests
in the same order, and its steps come last.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from slowtrain.columns.arrays import Bools
from slowtrain.memory.bfc_allocator import round_up_size
from slowtrain.profile import framework_names
from slowtrain.profile.format import xplane
from slowtrain.profile.summaries import device_summary

# As in the profiler's source: https://github.com/openxla/xla/blob/main/xla/tsl/framework/bfc_allocator.cc (AddTraceMe).
STAT_NAMES = (
    "allocator_name", "requested_bytes", "allocation_bytes", "bytes_allocated", "addr", "tf_op", "region_type", "shape",
)  # fmt: skip
COMPILER_THREAD = "tf_pjrt_compile"  # threads in which JAX compiles and compares kernels


@dataclass(frozen=True)
class AllocationRequest:
    """One piece of memory: who requested how much, and its positions in the sequence of requests and releases.

    ``released`` is None if it was still held at the end. ``line`` is the thread that requested it. ``released_by`` is
    the thread that released it, often that of the last op which read it.
    """

    op: str
    kind: str  # output, temp, persist, ... as the framework names it; "" if unknown
    size_bytes: int
    shape: tuple[int, ...]
    taken: int
    released: int | None
    line: str
    released_by: str = ""


@dataclass(frozen=True)
class AllocationRecord:
    """All requests to one allocator in order. ``before_bytes`` were in use before the first.

    ``readers``: the ops that read each op's results, by name. Ops that never ran in a graph are not included.
    """

    allocator: str
    requests: tuple[AllocationRequest, ...]
    before_bytes: int
    peak_bytes: int  # as the allocator counted during the recording
    readers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def names_ops(self) -> bool:
        """Whether requests name their op.

        XLA's programs, which are whole steps in JAX, make requests without a name.
        """
        return any(r.op for r in self.requests)


def find_profile(folder: Path) -> Path | None:
    return next(iter(sorted(folder.rglob("*.xplane.pb"))), None)


def read_records(file: Path, graph: Path | None = None) -> dict[str, AllocationRecord]:
    """A record for each allocator of the process. Raises ``InputError`` if the file is not a profile.

    ``graph``: a JSON file with each op's inputs, if there is one.
    """
    readers = _op_readers(graph) if graph is not None and graph.exists() else {}
    rows: dict[str, list[_Row]] = {}
    for plane in xplane.read_space(file).planes:
        wanted = device_summary.allocator_event_ids(
            plane, framework_names.ALLOCATION_EVENT, framework_names.DEALLOCATION_EVENT
        )
        for line in plane.lines if wanted is not None else ():
            for row in _allocation_rows(line, wanted, plane.event_names):
                rows.setdefault(row.allocator, []).append(row)
    return {name: _pair_releases(name, sorted(found, key=lambda r: r.at_ps), readers) for name, found in rows.items()}


def _op_readers(graph: Path) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for op, inputs in json.loads(graph.read_text(encoding="utf-8")).items():
        for name in inputs:
            found.setdefault(name, []).append(op)
    return {op: tuple(by) for op, by in found.items()}


@dataclass(frozen=True)
class _Row:
    at_ps: int
    taken: bool
    allocator: str
    requested: int
    size: int
    in_use: int
    address: int
    op: str
    kind: str
    shape: str
    line: str


def _allocation_rows(line: xplane.Line, wanted: Bools | None, called: Mapping[int, str]) -> Iterator[_Row]:
    events = line.events(STAT_NAMES, wanted)
    if not len(events):
        return
    texts = {}
    for name in ("allocator_name", "tf_op", "region_type", "shape"):
        stat = events.stats[name]
        texts[name] = [stat.texts[code] if code >= 0 else "" for code in stat.labels()]
    numbers = {
        n: events.stats[n].per_event(0) for n in ("requested_bytes", "allocation_bytes", "bytes_allocated", "addr")
    }
    for i in range(len(events)):
        yield _Row(
            int(events.start_ps[i]),
            called[int(events.metadata_id[i])] == framework_names.ALLOCATION_EVENT,
            texts["allocator_name"][i],
            int(numbers["requested_bytes"][i]),
            int(numbers["allocation_bytes"][i]),
            int(numbers["bytes_allocated"][i]),
            int(numbers["addr"][i]),
            texts["tf_op"][i],
            texts["region_type"][i],
            texts["shape"][i],
            line.name,
        )


def _pair_releases(name: str, rows: list[_Row], readers: Mapping[str, tuple[str, ...]]) -> AllocationRecord:
    """Joins each request with its release, by address. Memory taken before the record began is a single amount.

    Excludes what JAX's compiler tried on the device, because it manages with less memory if it finds less.
    """
    first = rows[0]
    before = max(first.in_use - first.size if first.taken else first.in_use + first.size, 0)
    open_at: dict[int, int] = {}
    tried: dict[int, int] = {}  # held by the compiler: bytes by address
    peak = 0
    found: list[tuple[_Row, int, int | None, str]] = []
    for at, row in enumerate(rows):
        if row.taken and row.line.startswith(COMPILER_THREAD):
            tried[row.address] = row.size
        elif row.taken:
            open_at[row.address] = len(found)
            found.append((row, at, None, ""))
        elif tried.pop(row.address, None) is None:
            index = open_at.pop(row.address, None)
            if index is not None:
                found[index] = (*found[index][:2], at, row.line)
        peak = max(peak, row.in_use - sum(tried.values()))
    requests = tuple(
        AllocationRequest(r.op, r.kind, r.requested, _parse_shape(r.shape), at, end, r.line, by)
        for r, at, end, by in found
    )
    return AllocationRecord(name, requests, before, peak, readers)


def _parse_shape(text: str) -> tuple[int, ...]:
    """``[16,3,3,64]`` as numbers; empty if unknown."""
    inner = text.strip().strip("[]")
    try:
        return tuple(int(part) for part in inner.split(",")) if inner else ()
    except ValueError:
        return ()


Floats = NDArray[np.float64]
_NUMBERED = re.compile(r"(__(?:inference|forward|backward)_\w*?)_\d+\b")
# The largest deviation from the ratio of batches at which a ratio of counts still follows it: warm-up adds some.
MAX_COUNT_RATIO_ERROR = 0.25


@dataclass(frozen=True)
class MeasuredBatch:
    """A record and the batch at which it was made."""

    batch: int
    record: AllocationRecord


@dataclass(frozen=True)
class ScaledRequests:
    """All requests of a run with sizes that depend on the batch, and the order of requests and releases."""

    measured: MeasuredBatch  # the run whose order it is
    fixed_bytes: Floats
    per_sample_bytes: Floats
    order: tuple[tuple[int, bool], ...]  # (index of a request, True for its request or False for its release)

    @property
    def requests(self) -> tuple[AllocationRequest, ...]:
        return self.measured.record.requests

    def sizes(self, batch: int) -> list[int]:
        found: list[int] = np.ceil(self.fixed_bytes + self.per_sample_bytes * batch).astype(np.int64).tolist()
        return found


def scale_requests(small: MeasuredBatch, large: MeasuredBatch, *, order: MeasuredBatch | None = None) -> ScaledRequests:
    """Makes each size a line through both records, in the order of ``order``: one of the two, by default the larger.

    Raises ``ValueError`` unless the batches ascend.
    """
    if small.batch >= large.batch:
        raise ValueError(f"a line needs two batches, not {small.batch} and {large.batch}")
    mine = order or large
    other = small if mine is large else large
    requests = mine.record.requests
    size = np.array([r.size_bytes for r in requests], float)
    slope = np.zeros(len(requests))
    step = mine.batch - other.batch
    for at, twin in enumerate(_matching_sizes(other.record.requests, mine)):
        slope[at] = size[at] / mine.batch if twin is None else max((size[at] - twin) / step, 0.0)
    for at in _per_sample_requests(small, large, mine):
        size[at] = round_up_size(int(size[at]))
        slope[at] = size[at] / mine.batch
    fixed = np.maximum(size - slope * mine.batch, 0.0)
    return ScaledRequests(mine, fixed, slope, _request_order(requests))


def predict_third(first: MeasuredBatch, second: MeasuredBatch, third: MeasuredBatch) -> ScaledRequests:
    """The third run's requests in their own order, with the sizes that the two smaller records predict.

    So only sizes are compared with the third's own peak. A different order of its threads is not a prediction error.
    """
    requests = third.record.requests
    sizes = np.array([r.size_bytes for r in requests], float)
    steps = (third.batch - second.batch) / (second.batch - first.batch)
    twins = zip(
        _matching_sizes(first.record.requests, third), _matching_sizes(second.record.requests, third), strict=True
    )
    for at, (one, other) in enumerate(twins):
        if one is not None and other is not None:
            sizes[at] = other + max(other - one, 0.0) * steps
    return ScaledRequests(third, sizes, np.zeros(len(requests)), _request_order(requests))


def _matching_sizes(others: Sequence[AllocationRequest], mine: MeasuredBatch) -> list[float | None]:
    """The size of each request in the other record; None if it scales with the batch."""
    if not mine.record.names_ops:
        return _matching_sizes_by_place(others, mine)
    by_op: dict[tuple[str, str], list[int]] = {}
    for request in others:
        by_op.setdefault(_request_key(request), []).append(request.size_bytes)
    everywhere = {r.size_bytes for r in others}
    seen: Counter[tuple[str, str]] = Counter()
    found: list[float | None] = []
    for request in mine.record.requests:
        key = _request_key(request)
        nth, seen[key] = seen[key], seen[key] + 1
        sizes = by_op.get(key, []) if request.op else []
        if sizes:
            found.append(float(sizes[nth] if nth < len(sizes) else max(sizes)))  # a loop that ran more often
        elif request.size_bytes in everywhere and mine.batch not in request.shape:
            found.append(float(request.size_bytes))
        else:
            found.append(None)
    return found


def _matching_sizes_by_place(others: Sequence[AllocationRequest], mine: MeasuredBatch) -> list[float | None]:
    requests = mine.record.requests
    theirs = {r.size_bytes for r in others}
    more = max(len(requests) - len(others), 0)
    found = [float(r.size_bytes) if r.size_bytes in theirs else None for r in requests[:more]]
    return [*found, *(float(r.size_bytes) for r in others[len(others) - (len(requests) - more) :])]


def _request_key(request: AllocationRequest) -> tuple[str, str]:
    """Removes the running number of functions, which carries no information."""
    return _NUMBERED.sub(r"\1", request.op), request.kind


def _per_sample_requests(small: MeasuredBatch, large: MeasuredBatch, mine: MeasuredBatch) -> Iterator[int]:
    """Requests that come once per sample, with a constant size: a larger batch has more of them, not larger ones."""
    ratio = large.batch / small.batch
    counts = [Counter((r.op, r.kind, r.size_bytes) for r in m.record.requests) for m in (small, large)]
    for at, r in enumerate(mine.record.requests):
        before, now = (c[r.op, r.kind, r.size_bytes] for c in counts)
        if before >= small.batch and abs(now / before / ratio - 1) <= MAX_COUNT_RATIO_ERROR:
            yield at


def _request_order(requests: Sequence[AllocationRequest]) -> tuple[tuple[int, bool], ...]:
    """Includes small requests: the gap that one fills decides the size of the next one's piece."""
    taken = ((r.taken, at, True) for at, r in enumerate(requests))
    released = ((r.released, at, False) for at, r in enumerate(requests) if r.released is not None)
    return tuple((at, is_taken) for _, at, is_taken in sorted(chain(taken, released)))
