"""Copies to the device in each step that are very small, or come from pageable memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from slowtrain.causes import MIN_SYMPTOM_SHARE, Cause, pcie_link
from slowtrain.columns.device import DirectionCopies
from slowtrain.model import Category, Evidence, Place, Signal
from slowtrain.number_text import format_number
from slowtrain.trace import Trace
from slowtrain.trace.signals.host.host_work import distinct_places
from slowtrain.trace.signals.input_feed import handover_ms_by_category
from slowtrain.whatif import Drop, Remedy

MIN_PAGEABLE_SHARE = 0.5  # of the bytes
MAX_LOCKED_TIME_SHARE = 0.8  # of a pageable copy's time: rates of locked copies differ by a seventh among themselves
MIN_LOCKED_BYTES = 1e6  # a step: smaller copies do not show what the link can do
MIN_COPIES = 16  # a step; fewer, at some 20 µs each, take less than a third of a millisecond
# A copy of 4 bytes took 1.6 µs of a V100, and 15 µs of the host's call that starts it. At 12 GB/s (PCIe 3.0 with
# sixteen lanes) 64 KiB take as long on the device as the start: smaller copies are mostly overhead.
MAX_MEAN_BYTES = 65536
MAX_BYTES_PER_MS = 1e7  # of one large copy: 10 GB/s from ordinary memory at best


class PageableCopies(Struct, frozen=True):
    """All copies of a step, of whose bytes ``share`` is pageable.

    ``exposed_ms`` is the time of pageable copies that no kernel hides.
    """

    copied: DirectionCopies
    share: float
    exposed_ms: float
    bytes_per_ms: float

    def evidence(self, trace: Trace) -> Evidence:
        copied = self.copied
        return Evidence(
            f"{format_number(copied.count)} copies to the device in each step, {self.share:.0%} of their "
            f"{format_number(copied.bytes / 1e6)} MB from pageable memory, at {format_number(self.bytes_per_ms / 1e6)} "
            f"GB/s; no kernel hides {format_number(self.exposed_ms)} of {format_number(trace.step_ms)} ms",
            {
                "copies_per_step": copied.count,
                "copy_bytes": copied.bytes / copied.count,
                "feed_ms": self.exposed_ms,
                "pageable_share": self.share,
            },
            _evidence_places(trace),
        )

    def remedies(self, trace: Trace) -> Sequence[Remedy]:
        # Beside the step a copy takes as long as before, and a step cannot get shorter than that. At best the copy also
        # comes from locked memory, and all of it hides.
        saved = min(self.exposed_ms, trace.step_ms - self.exposed_ms)
        return [Drop({Category.FEED: saved}, 0.0, (0.4, self.exposed_ms / saved))] if saved > 0 else []


class TinyCopies(Struct, frozen=True):
    """The copies of a step, and the ms that are waited for them by category."""

    copied: DirectionCopies
    waits: Mapping[Category, float]

    def evidence(self, trace: Trace) -> Evidence:
        copied, wait_ms = self.copied, sum(self.waits.values())
        mean_bytes = copied.bytes / copied.count
        rate = copied.bytes / copied.ms / 1e3 if copied.ms else 0.0
        return Evidence(
            f"{copied.count:,.0f} copies to the device in each step, {mean_bytes:,.0f} bytes each, at "
            f"{format_number(rate)} MB/s; the step waits {format_number(wait_ms)} of {format_number(trace.step_ms)} ms "
            "for them",
            {"copies_per_step": copied.count, "copy_bytes": mean_bytes, "feed_ms": wait_ms},
        )

    def remedies(self, trace: Trace) -> Sequence[Remedy]:
        total = max(sum(self.waits.values()), 1e-9)
        kept = min(1 / self.copied.count + self.copied.bytes / MAX_BYTES_PER_MS / total, 1.0)
        # To stack the tensors, the host copies them once more.
        return [Drop({category: (1 - kept) * ms for category, ms in self.waits.items()}, 1.0, (0.5, 1.05))]


class SmallCopies(Cause[TinyCopies | PageableCopies]):
    """Each step copies dozens of small tensors to the device, one by one, or large ones from pageable memory."""

    title = "Many small copies to the device, or copies from pageable memory"
    needs = frozenset({Signal.STEPS, Signal.DEVICE})
    words = ("from_tensor_slices", "fit")

    def wants(self, trace: Trace) -> frozenset[Signal]:
        copied = trace.device.copies.get("h2d") if trace.device is not None else None
        unknown = copied is not None and _may_be_slow(trace, copied)
        return super().wants(trace) | ({Signal.FEEDS} if unknown else set())

    def find(self, trace: Trace) -> TinyCopies | PageableCopies | None:
        copied = trace.device.copies.get("h2d") if trace.device is not None else None
        if copied is None or copied.bytes <= 0:  # AMD's copies have no bytes in a profile
            return None
        return _find_tiny_copies(trace, copied) if _are_tiny(copied) else _find_pageable_copies(trace, copied)


def _may_be_slow(trace: Trace, copied: DirectionCopies) -> bool:
    """Whether the step may wait for pageable copies, or for small ones if their bytes are unknown."""
    if not copied.bytes:
        return trace.share(Category.FEED) >= MIN_SYMPTOM_SHARE
    return copied.pageable is None and not _are_tiny(copied) and copied.exposed_ms >= MIN_SYMPTOM_SHARE * trace.step_ms


def _find_pageable_copies(trace: Trace, copied: DirectionCopies) -> PageableCopies | None:
    """None if the profile does not name pageable copies, or if locked memory would not be faster."""
    pageable = copied.pageable
    if pageable is None or pageable.ms <= 0 or pageable.bytes < MIN_PAGEABLE_SHARE * copied.bytes:
        return None
    locked_bytes, locked_took = copied.bytes - pageable.bytes, copied.ms - pageable.ms
    is_measured = locked_bytes >= MIN_LOCKED_BYTES and locked_took > 0
    rate = locked_bytes / locked_took if is_measured else pcie_link.locked_copy_bytes_per_ms(trace)
    exposed_ms = min(pageable.exposed_ms, trace.mean(Category.FEED))
    locked_ms = exposed_ms * pageable.bytes / pageable.ms / rate
    if locked_ms >= MAX_LOCKED_TIME_SHARE * exposed_ms:
        return None
    share = pageable.bytes / copied.bytes
    return PageableCopies(copied, share, exposed_ms, pageable.bytes / pageable.ms)


def _evidence_places(trace: Trace) -> tuple[Place, ...]:
    """Where the data set ends, and where training takes its batches; a profile has neither."""
    if trace.fact("profile"):
        return ()
    written = trace.pipeline.written if trace.pipeline is not None else ()
    ends = [one.place for one in written if one.place is not None]
    return distinct_places((*ends[-1:], trace.steps.place))


def _are_tiny(copied: DirectionCopies) -> bool:
    return copied.count >= MIN_COPIES and copied.bytes <= MAX_MEAN_BYTES * copied.count


def _find_tiny_copies(trace: Trace, copied: DirectionCopies) -> TinyCopies:
    return TinyCopies(copied, handover_ms_by_category(trace))
