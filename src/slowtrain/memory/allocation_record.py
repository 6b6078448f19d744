"""The allocator's record: every request and release of memory that TensorFlow's profiler noted, in order."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from slowtrain.columns.arrays import Bools
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
    taken_ps: int
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
    def named(self) -> bool:
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
        for given in inputs:
            found.setdefault(given, []).append(op)
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
    numbers = {n: events.stats[n].filled(0) for n in ("requested_bytes", "allocation_bytes", "bytes_allocated", "addr")}
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
        AllocationRequest(r.op, r.kind, r.requested, _parse_shape(r.shape), at, end, r.line, r.at_ps, by)
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
