"""Copies to the device in each step that are very small, or come from pageable memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slowtrain.causes import MIN_SYMPTOM_SHARE, Cause, pcie_link
from slowtrain.causes.transfer.small_copies import fix
from slowtrain.columns.device_copies import DirectionCopies
from slowtrain.model import Category, Effect, Evidence, Place, Prescription, Signal
from slowtrain.number_text import format_number
from slowtrain.source.cures import measured
from slowtrain.trace import Trace
from slowtrain.trace.signals.host.host_work import distinct_places
from slowtrain.trace.signals.input.device_handover import handover_ms_by_category
from slowtrain.values import dataclass
from slowtrain.whatif import Drop, Remedy

MANY = 16  # a step; the copies of fewer, at some 20 µs each, take a third of a millisecond
# A copy of 4 bytes took 1.6 µs of a V100, and 15 µs of the host's call that starts it. At 12 GB/s (PCIe 3.0 with
# sixteen lanes) 64 KiB take as long on the device as the start: smaller copies are mostly their own price.
SMALL_BYTES = 65536
BYTES_PER_MS = 1e7  # of one large copy: 10 GB/s from ordinary memory at best
MOSTLY = 0.5  # of the bytes come from pageable memory
AHEAD = 'end the data set in .apply(tf.data.experimental.prefetch_to_device("/GPU:0")): it copies beside the step'
ARRAYS = 'make a tf.data.Dataset of the arrays, and end it in prefetch_to_device("/GPU:0"): it copies beside the step'
IN_FIT = (
    "end the data set in prefetch_to_device: it copies beside the step. Such a data set does not tell its length: "
    "repeat() it and give fit steps_per_epoch, or Keras counts a step too many in each epoch"
)
PINNED = (
    "have a map stand directly in front of .batch(n): TensorFlow makes one operation of both (MapAndBatch), whose "
    "batches lie in locked memory; those of batch alone, of cache and of arrays do not"
)
SLOWER = 0.8  # of a pageable copy's time is a locked one's: rates of locked ones differ by a seventh among themselves
LEAST_LOCKED_BYTES = 1e6  # a step: smaller copies do not show what the link can do


@dataclass(frozen=True)
class Slow:
    """Copies from pageable memory, a step: what they take that no kernel hides, and from locked memory would."""

    copies: DirectionCopies
    share: float  # of the bytes
    ms: float
    left_ms: float
    bytes_per_ms: float


class SmallCopies(Cause[Evidence]):
    """Each step copies dozens of small tensors to the device, one by one, or large ones from pageable memory."""

    title = "Many small copies to the device, or copies from pageable memory"
    needs = frozenset({Signal.STEPS, Signal.DEVICE})
    words = ("from_tensor_slices", "fit")

    def wants(self, trace: Trace) -> frozenset[Signal]:
        copied = trace.device.copies.get("h2d") if trace.device is not None else None
        unknown = copied is not None and _untold(trace, copied)
        return super().wants(trace) | ({Signal.FEEDS} if unknown else set())

    def find(self, trace: Trace) -> Evidence | None:
        found = _copies(trace)
        if found is None:
            return None
        if not _small(found):
            return _evidence(trace, slow) if (slow := _pageable(trace, found)) is not None else None
        ms = sum(handover_ms_by_category(trace).values())
        each = found.bytes / found.count
        rate = found.bytes / found.ms / 1e3 if found.ms else 0.0
        return Evidence(
            f"{found.count:,.0f} copies to the device in each step, {each:,.0f} bytes each, at "
            f"{format_number(rate)} MB/s; "
            f"{format_number(ms)} of {format_number(trace.step_ms)} ms are waited for them",
            {"copies_per_step": found.count, "copy_bytes": each, "feed_ms": ms},
        )

    def remedies(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        found = _copies(trace)
        if found is None:
            return []
        if not _small(found):
            slow = _pageable(trace, found)
            if slow is None:
                return []
            # Beside the step a copy takes as long as before: a step gets no shorter than that. At best it comes from
            # locked memory as well, and all of it hides.
            saved = min(slow.ms, trace.step_ms - slow.ms)
            return [Drop({Category.FEED: saved}, 0.0, (0.4, slow.ms / saved))] if saved > 0 else []
        handed = handover_ms_by_category(trace)
        total = max(sum(handed.values()), 1e-9)
        kept = min(1 / found.count + found.bytes / BYTES_PER_MS / total, 1.0)
        # Stacking costs the host a copy of its own.
        return [Drop({category: (1 - kept) * ms for category, ms in handed.items()}, 1.0, (0.5, 1.05))]

    def cures(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        if "pageable_share" not in evidence.numbers:
            yield Prescription("edit", Effect.EXACT, "stack inputs of one type into one tensor before they cross")
        elif trace.on_jax:
            yield Prescription("edit", Effect.EXACT, "jax.device_put the next batch while the step before it runs")
        else:
            yield _ahead(trace, evidence)
            if not _map_before_batch(trace):
                yield Prescription("advice", Effect.EXACT, PINNED)


def _small(found: DirectionCopies) -> bool:
    return found.count >= MANY and found.bytes <= SMALL_BYTES * found.count


def _untold(trace: Trace, copied: DirectionCopies) -> bool:
    """Whether what is waited for may be pageable copies, or, where no bytes are told, small ones."""
    if not copied.bytes:
        return trace.share(Category.FEED) >= MIN_SYMPTOM_SHARE
    return copied.pageable is None and not _small(copied) and copied.exposed_ms >= MIN_SYMPTOM_SHARE * trace.step_ms


def _pageable(trace: Trace, found: DirectionCopies) -> Slow | None:
    """None where the profile does not tell, or locked memory would not be quicker."""
    slow = found.pageable
    if slow is None or slow.ms <= 0 or slow.bytes < MOSTLY * found.bytes:
        return None
    locked, took = found.bytes - slow.bytes, found.ms - slow.ms
    rate = locked / took if locked >= LEAST_LOCKED_BYTES and took > 0 else pcie_link.locked_copy_bytes_per_ms(trace)
    ms = min(slow.exposed_ms, trace.mean(Category.FEED))
    left = ms * slow.bytes / slow.ms / rate
    return Slow(found, slow.bytes / found.bytes, ms, left, slow.bytes / slow.ms) if left < SLOWER * ms else None


def _ahead(trace: Trace, evidence: Evidence) -> Prescription:
    """The data set's copies beside the step, with the edit where the script shows that nothing else reads it."""
    fits = [e for e in trace.events_of("loop") if e.name == "fit"]
    if any((e.data.get("data") or {}).get("type") == "numpy.ndarray" for e in fits):
        return Prescription("advice", Effect.EXACT, ARRAYS)
    found = measured.first(trace, evidence.where, fix.prefetched_to_device)
    if not found and trace.steps.source == "fit":
        return Prescription("advice", Effect.EXACT, IN_FIT)
    return Prescription("edit", Effect.EXACT, AHEAD, edits=found)


def _map_before_batch(trace: Trace) -> bool:
    """Whether the pipeline makes batches in locked memory, whatever then keeps them elsewhere."""
    return trace.pipeline is not None and any(node.family == "MapAndBatch" for node in trace.pipeline.nodes)


def _where(trace: Trace) -> tuple[Place, ...]:
    """Where the data set ends, and where training takes its batches."""
    written = trace.pipeline.written if trace.pipeline is not None else ()
    ends = [one.place for one in written if one.place is not None]
    return distinct_places((*ends[-1:], trace.steps.place))


def _evidence(trace: Trace, slow: Slow) -> Evidence:
    found = slow.copies
    return Evidence(
        f"{format_number(found.count)} copies to the device in each step, {slow.share:.0%} of their "
        f"{format_number(found.bytes / 1e6)} "
        f"MB from pageable memory, at {format_number(slow.bytes_per_ms / 1e6)} GB/s; {format_number(slow.ms)} of "
        f"{format_number(trace.step_ms)} ms hide behind no kernel",
        {"copies_per_step": found.count, "copy_bytes": found.bytes / found.count, "feed_ms": slow.ms,
         "pageable_share": slow.share},
        () if trace.fact("profile") else _where(trace),
    )  # fmt: skip


def _copies(trace: Trace) -> DirectionCopies | None:
    """To the device; None where the profile gives no bytes (AMD's copies have none)."""
    found = trace.device.copies.get("h2d") if trace.device is not None else None
    return found if found is not None and found.bytes > 0 else None
