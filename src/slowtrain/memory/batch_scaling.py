"""Predicts the requests at a batch that was never run: each size is a line through measurements at two batches.

A request is matched in the other record by its op, its kind and its position among the op's requests. It keeps its size
if it has no op name (input buffers, folded constants) or the other record lacks the op (a copy that happens only if two
threads meet), and the other record has that size. Otherwise, or if its shape contains the batch, it scales with the
batch. So does a request that comes once per sample. No size decreases with the batch.

If no request has a name, as in XLA's programs, requests are matched by position from the end: the same script requests
in the same order, and its steps come last.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from slowtrain.memory.allocation_record import AllocationRecord, AllocationRequest
from slowtrain.memory.bfc_allocator import round_up_size

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
    if not mine.record.named:
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
