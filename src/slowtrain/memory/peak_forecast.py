"""The peak at any batch: whether it fits a card, the largest batch that fits, and what holds the memory.

The requests at a batch are replayed in the simulated allocator.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass

from slowtrain.memory.allocation_record import (
    AllocationRequest,
    MeasuredBatch,
    ScaledRequests,
    predict_third,
    scale_requests,
)
from slowtrain.memory.bfc_allocator import Allocator, round_up_size
from slowtrain.model.measurements import Need

MAX_REPLAYED_BATCH = 1 << 24


@dataclass(frozen=True)
class MemoryPool:
    """The available memory, and whether it comes in regions on demand or all at once."""

    limit_bytes: int
    growth: bool


@dataclass(frozen=True)
class ReplayOutcome:
    """``at_peak``: requests that were held at the peak. ``failed``: the request that did not fit."""

    fits: bool
    peak_bytes: int
    pool_bytes: int
    at_peak: tuple[int, ...]
    failed: int | None
    free_bytes: int  # in total, at the failure
    largest_free_bytes: int


def replay_requests(requests: ScaledRequests, batch: int, pool: MemoryPool, *, holders: bool = False) -> ReplayOutcome:
    """Replays the requests. ``holders``: also records what was held at the peak, which takes longer."""
    allocator = Allocator(pool.limit_bytes, growth=pool.growth)
    sizes = requests.sizes(batch)
    held_chunks: dict[int, int] = {}
    at_peak: tuple[int, ...] = ()
    before = requests.measured.record.before_bytes
    failed = -1 if before and allocator.allocate(before) is None else None
    threads: _ThreadOrder | None = None
    for place, (at, taken) in enumerate(requests.order if failed is None else ()):
        if not taken:
            if at in held_chunks:
                allocator.free(held_chunks.pop(at))
            continue
        peak = allocator.peak_bytes
        address = allocator.allocate(sizes[at])
        if address is None:
            threads = threads or _ThreadOrder(requests)
            for other in threads.awaited_releases(place, held_chunks):
                allocator.free(held_chunks.pop(other))
            address = allocator.allocate(sizes[at])
        if address is None:
            failed = at
            break
        held_chunks[at] = address
        if holders and allocator.peak_bytes > peak:
            at_peak = tuple(held_chunks)
    return ReplayOutcome(
        failed is None,
        allocator.peak_bytes,
        allocator.pool_bytes,
        at_peak,
        failed,
        allocator.limit_bytes - allocator.in_use_bytes,
        allocator.largest_free_bytes,
    )


class _ThreadOrder:
    """The order of each thread's requests and releases: a request that fails waits until others release memory.

    TensorFlow lets it wait at most ten seconds. Certain to be released is only what the ops that other threads are
    executing will release, because those end in any case: their workspace, and inputs that no other op still has to
    read. What those threads would do next may depend on the waiting op, and is not counted.
    """

    def __init__(self, requests: ScaledRequests) -> None:
        self.requests = requests.requests
        self.order = requests.order
        self.readers = requests.measured.record.readers
        self.of_thread: dict[str, list[int]] = {}
        self.of_op: dict[str, list[int]] = {}
        self.taken = {at: place for place, (at, taken) in enumerate(self.order) if taken}
        for place, (at, taken) in enumerate(self.order):
            request = self.requests[at]
            self.of_thread.setdefault(request.line if taken else request.released_by, []).append(place)
            if taken:
                self.of_op.setdefault(request.op, []).append(place)

    def awaited_releases(self, place: int, held_chunks: Container[int]) -> list[int]:
        """The requests that other threads release if the request at ``place`` waits."""
        mine = self.requests[self.order[place][0]]
        found: list[int] = []
        for line, places in self.of_thread.items():
            next_at = bisect_left(places, place)
            working = self._current_op(places[:next_at], held_chunks)
            if line == mine.line or working in (None, mine.op):
                continue
            for later in places[next_at:]:
                at, taken = self.order[later]
                if taken:
                    break
                if at in held_chunks and (
                    self.requests[at].kind == "temp" or self._is_read(at, place, working, mine.op)
                ):
                    found.append(at)
        return found

    def _current_op(self, past: Sequence[int], held_chunks: Container[int]) -> str | None:
        """The op that a thread is executing: it requested memory and has released none since, or it holds workspace."""
        for place in reversed(past):
            at, taken = self.order[place]
            request = self.requests[at]
            if taken and at in held_chunks:
                return request.op if place == past[-1] or request.kind == "temp" else None
        return None

    def _is_read(self, at: int, place: int, working: str, waiting: str) -> bool:
        """Whether every reader of a request has begun at ``place``, and none of them waits."""
        readers = self._requesting_readers(self.requests[at].op)
        if not readers or (waiting in readers and waiting != working):
            return False
        return all(reader == working or self._has_begun(reader, self.taken[at], place) for reader in readers)

    def _has_begun(self, op: str, after: int, before: int) -> bool:
        places = self.of_op[op]
        first = bisect_right(places, after)
        return first < len(places) and places[first] < before

    def _requesting_readers(self, op: str) -> set[str]:
        """The readers of an op's result that request memory themselves; other readers pass their input on."""
        found: set[str] = set()
        seen = {op}
        todo = [op]
        while todo:
            for reader in self.readers.get(todo.pop(), ()):
                if reader in self.of_op:
                    found.add(reader)
                elif reader not in seen:
                    seen.add(reader)
                    todo.append(reader)
        return found


def largest_fitting_batch(fits: Callable[[int], bool], first: int) -> int:
    """The largest batch that fits, searched upwards and downwards from ``first``; 0 if none does.

    Fitting need not be monotone in the batch, because pieces fall differently. The returned batch fits, the next one
    does not.
    """
    low, high = 0, max(first, 1)
    while high <= MAX_REPLAYED_BATCH and fits(high):
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


NO_LIMIT_BYTES = 1 << 50
# Share of the limit that is always kept free, because ops of several threads come in another order in each run. Without
# it a transformer under 256 MiB was promised 204 samples: 203 fitted, 204 did not.
MIN_MARGIN_SHARE = 0.01
# Batches down to this share below the answer are tried as well, because pieces fall differently at every size.
NEARBY_SHARE = 1 / 64


@dataclass(frozen=True)
class PeakForecast:
    """``orders``: the sizes in the order of each record, because the order of ops varies and with it the placement."""

    measured: tuple[MeasuredBatch, ...]  # by batch
    orders: tuple[ScaledRequests, ...]
    error_share: float | None
    margin_share: float  # by which a forecast may be too low: see ``forecast_peaks``

    def outcome(self, batch: int, pool: MemoryPool | None = None, *, holders: bool = False) -> ReplayOutcome:
        """Replays the batch in ``pool``, by default an unlimited pool of the kind in which the records were made."""
        return replay_requests(self.requests(batch), batch, pool or unlimited_pool(self.measured[-1]), holders=holders)

    def requests(self, batch: int) -> ScaledRequests:
        """XLA chooses other kernels for other batches, so it uses the records next to that batch, else the largest."""
        if self.measured[-1].record.names_ops:
            return self.orders[0]
        batches = [m.batch for m in self.measured]
        above = min(max(bisect_left(batches, batch), 1), len(batches) - 1)
        small, large = self.measured[above - 1], self.measured[above]
        return scale_requests(small, large, order=small if batch <= small.batch else large)

    def fits(self, batch: int, pool: MemoryPool) -> bool:
        """Whether the batch fits in every recorded order, with the margin kept free."""
        less = MemoryPool(int(pool.limit_bytes / (1 + self.margin_share)), pool.growth)
        orders = (self.requests(batch), *self.orders[1:])
        return all(replay_requests(order, batch, p).fits for order in orders for p in (less, pool))

    def largest_fit(self, pool: MemoryPool) -> int:
        """The largest batch that fits together with all batches just below it; 0 if none does."""
        known: dict[int, bool] = {}

        def fits(batch: int) -> bool:
            if batch not in known:
                known[batch] = self.fits(batch, pool)
            return known[batch]

        found = largest_fitting_batch(fits, self.measured[-1].batch)
        while found:
            step = max(int(found * NEARBY_SHARE / 4), 1)
            below = next((b for b in range(found - step, max(found - 4 * step, 0), -step) if not fits(b)), None)
            if below is None:
                return found
            found = largest_fitting_batch(lambda b, top=below: b < top and fits(b), 1)  # type: ignore[misc]
        return 0


def forecast_peaks(measured: Sequence[MeasuredBatch]) -> PeakForecast:
    """Builds the forecast. Raises ``ValueError`` for fewer than two batches.

    The margin is the amount by which forecasts of larger probes were too low, and at least a hundredth. For XLA's
    programs only the last forecast counts, because small batches use other kernels.
    """
    known = tuple(sorted(measured, key=lambda m: m.batch))
    if len(known) < 2:
        raise ValueError("a line needs two batches")
    errors = [_prediction_error(*three) for three in zip(known, known[1:], known[2:], strict=False)]
    high = known[-1]
    others = reversed(known[:-1]) if high.record.names_ops else ()  # XLA's programs make requests in one order
    orders = (scale_requests(known[-2], high), *(scale_requests(one, high, order=one) for one in others))
    counted = errors if high.record.names_ops else errors[-1:]
    return PeakForecast(known, orders, max(map(abs, errors), default=None), max([MIN_MARGIN_SHARE, *counted]))


def unlimited_pool(measured: MeasuredBatch) -> MemoryPool:
    """An unlimited pool of the same kind: with regions, pieces are larger than requests, which changes the peak."""
    return MemoryPool(NO_LIMIT_BYTES, growth="cpu" in measured.record.allocator)


def _prediction_error(first: MeasuredBatch, second: MeasuredBatch, third: MeasuredBatch) -> float:
    """The share by which the third's peak exceeds the prediction from the two smaller ones."""
    peak = replay_requests(predict_third(first, second, third), third.batch, unlimited_pool(third)).peak_bytes
    return third.record.peak_bytes / peak - 1


PEAK_PARTS = ("parameters", "optimizer", "gradients", "activations", "input", "workspace", "step", "other")
_CALL = re.compile(r"^(?:.*/)?(?:Stateful)?PartitionedCall(?:_\d+)?/")  # a function in a function
_OPTIMIZER = re.compile(
    r"(^|/)(adam\w*|sgd|rm_?sprop|nadam|lion|adagrad|ftrl|lamb|adafactor|adadelta)(_\d+)?/", re.IGNORECASE
)
_COPY = re.compile(r"_\d+$")


def peak_need(requests: ScaledRequests, batch: int, outcome: ReplayOutcome, variables: Mapping[str, int]) -> Need:
    """``outcome`` is a replay at that batch with holders; ``variables`` are the probe's bytes by kind."""
    sizes = requests.sizes(batch)
    bytes_by_part: Counter[str] = Counter()
    layers: Counter[str] = Counter()
    lasting = requests.measured.record.before_bytes
    for at in outcome.at_peak:
        request, size = requests.requests[at], round_up_size(sizes[at])
        if request.released is None and not _is_input(request):
            lasting += size
            continue
        part = temporary_part(request) if requests.measured.record.names_ops else "step"
        bytes_by_part[part] += size
        if part == "activations":
            layers[layer_name(request.op)] += size
    bytes_by_part["parameters"] = min(variables.get("trained", 0) + variables.get("other", 0), lasting)
    slots = min(variables.get("optimizer", 0), lasting - bytes_by_part["parameters"])
    bytes_by_part["optimizer"] += slots
    bytes_by_part["other"] += lasting - bytes_by_part["parameters"] - slots
    # Pieces are larger than the requests.
    bytes_by_part["other"] += max(outcome.peak_bytes - sum(bytes_by_part.values()), 0)
    return Need(batch, outcome.peak_bytes, {p: bytes_by_part[p] for p in PEAK_PARTS}, tuple(layers.most_common()))


def temporary_part(request: AllocationRequest) -> str:
    """The part to which a request belongs that is released again."""
    op = _CALL.sub("", request.op)
    if _is_input(request):
        return "input"
    if request.kind in ("temp", "persist"):
        return "workspace"
    if "gradient_tape" in op or "Grad" in op.rpartition("/")[2]:
        return "gradients"
    if _OPTIMIZER.search(op):
        return "optimizer"
    return "activations" if "/" in op else "other"


def _is_input(request: AllocationRequest) -> bool:
    return "Iterator" in request.op or "Dataset" in request.op or request.line.startswith("tf_data")


def layer_name(op: str) -> str:
    """``sequential_1/conv2d_1_2/Relu`` belongs to conv2d_1: without the model's name and the call's number."""
    inner = _CALL.sub("", op).split("/")[:-1]
    inner = inner[1:] if len(inner) > 1 else inner
    name = inner[0] if inner else "other"
    return _COPY.sub("", name) or name
