"""Dozens of small copies to the device in each step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from slowtrain.columns.device import DirectionCopies
from slowtrain.model import Category, Effect, Evidence, Prescription
from slowtrain.number_text import format_number
from slowtrain.trace import Trace
from slowtrain.trace.signals.input_feed import handover_ms_by_category
from slowtrain.whatif import Drop, Remedy

MIN_COPIES = 16  # a step; fewer, at some 20 µs each, take less than a third of a millisecond
# A copy of 4 bytes took 1.6 µs of a V100, and 15 µs of the host's call that starts it. At 12 GB/s (PCIe 3.0 with
# sixteen lanes) 64 KiB take as long on the device as the start: smaller copies are mostly overhead.
MAX_MEAN_BYTES = 65536
MAX_BYTES_PER_MS = 1e7  # of one large copy: 10 GB/s from ordinary memory at best


@dataclass(frozen=True)
class TinyCopies:
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

    def cures(self, trace: Trace) -> Iterable[Prescription]:
        yield Prescription("edit", Effect.EXACT, "stack inputs of one type into one tensor before they cross")


def are_tiny(copied: DirectionCopies) -> bool:
    return copied.count >= MIN_COPIES and copied.bytes <= MAX_MEAN_BYTES * copied.count


def find_tiny_copies(trace: Trace, copied: DirectionCopies) -> TinyCopies:
    return TinyCopies(copied, handover_ms_by_category(trace))
