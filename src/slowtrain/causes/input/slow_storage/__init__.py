"""The input waits for bytes, not for a processor."""

from __future__ import annotations

from collections.abc import Sequence

from slowtrain.causes import Cause
from slowtrain.causes.idle_input_wait import (
    IdleInputWait,
    find_idle_input_wait,
    mean_sample,
    missing_read_signals,
    read_mb_per_s,
    waits_for_bytes,
)
from slowtrain.model import Category, Evidence, Signal
from slowtrain.number_text import format_number
from slowtrain.trace import Trace
from slowtrain.whatif import Drop, Remedy, Supply


class SlowStorage(Cause[IdleInputWait]):
    """Batches come as slowly as a disk, a file share or a network gives their bytes."""

    title = "Storage is the limit"
    needs = frozenset({Signal.STEPS, Signal.INPUT, Signal.MACHINE})
    cured_by_packing = True
    symptoms = frozenset({Category.INPUT, Category.PYTHON})

    def wants(self, trace: Trace) -> frozenset[Signal]:
        return super().wants(trace) | missing_read_signals(trace)

    def find(self, trace: Trace) -> IdleInputWait | None:
        found = find_idle_input_wait(trace)
        return found if found is not None and waits_for_bytes(trace, found) else None

    def evidence(self, trace: Trace, finding: IdleInputWait) -> Evidence:
        iowait, rate = mean_sample(trace, "iowait_share") or 0.0, read_mb_per_s(trace)
        read = f"; {format_number(rate)} MB/s were read, I/O wait {100 * iowait:.0f} %" if rate is not None else ""
        return Evidence(
            f"making a batch takes up to {format_number(finding.made_ms)} ms, "
            f"{format_number(finding.ms)} ms of it with no core at work{read}",
            {"waiting_ms": finding.ms, "iowait_share": iowait, "read_mb_per_s": rate or 0.0},
            finding.where,
        )

    def remedies(self, trace: Trace, finding: IdleInputWait) -> Sequence[Remedy]:
        if finding.by_hand:
            return [Drop({Category.PYTHON: finding.ms}, 0.0, (0.7, 1.1))]
        return [Supply(finding.left, spread=(0.7, 1.1))]
