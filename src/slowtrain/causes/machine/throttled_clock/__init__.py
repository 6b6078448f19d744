"""Heat or power hold the clock of the card down."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from slowtrain.causes import Cause
from slowtrain.causes.judged import Judged, facts_of, given, missing, passing
from slowtrain.columns.array_statistics import median_value
from slowtrain.machine.host.nvml import describe_throttle_bits
from slowtrain.machine.tables.fact_access import driver_gpus, gpu_label, number_or_none
from slowtrain.model import Category, Effect, Evidence, Prescription, Signal
from slowtrain.trace import Trace
from slowtrain.values import dataclass
from slowtrain.whatif import Drop, Remedy

MOSTLY = 0.5  # of the readings during the steps: less, and the clock was held down for a moment only
HELD = 0x4 | 0x8 | 0x20 | 0x40 | 0x80  # power limit, hardware slowdown, heat, power brake: nobody chose these
POWER = 0x4
MOST_GPUS = 16


@dataclass(frozen=True)
class Held:
    """A card's clock during the steps, its highest, and NVML's reasons."""

    name: str
    mhz: float
    most_mhz: float
    share: float
    bits: int


class ThrottledClock(Judged, Cause[Evidence]):
    """Heat or power hold the card's clock down while it works."""

    title = "Heat or power hold the GPU's clock down"
    machine_topic = "clocks"
    doctor_rank = 40
    needs = frozenset({Signal.FACTS, Signal.LOAD})
    matters = False

    def wants(self, trace: Trace) -> frozenset[Signal]:
        # A run's own readings speak of it; the doctor has no run, and a load of its own or none.
        if trace.fact("doctor"):
            return frozenset({Signal.FACTS}) | missing(trace, self.id)
        if given(trace):
            return frozenset({Signal.FACTS}) | missing(trace, self.id) | passing(trace, self.id, Signal.LOAD)
        return self.needs

    def matters_in(self, trace: Trace) -> bool:
        return given(trace)  # what it cost these steps, the clock of another moment does not tell

    def find(self, trace: Trace) -> Evidence | None:
        if trace.fact("doctor") or given(trace):
            return super().find(trace)
        held = _held(trace)
        if held is None:
            return None
        return Evidence(
            f"in {held.share:.0%} of the readings during the steps the clock of {held.name} was held down "
            f"({', '.join(describe_throttle_bits(held.bits) or ())}): {held.mhz:.0f} of {held.most_mhz:.0f} MHz",
            {"clock_share": held.mhz / held.most_mhz, "held_share": held.share},
        )

    def remedies(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        held = None if trace.fact("doctor") or given(trace) else _held(trace)
        if held is None:
            return []
        # At its full clock all arithmetic would take that share of its time; what waits for memory gains nothing.
        saved = trace.mean(Category.DEVICE) * (1 - held.mhz / held.most_mhz) * held.share
        return [Drop({Category.DEVICE: saved}, 0.0, (0.2, 1.05))]

    def cures(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        if trace.fact("doctor") or given(trace):
            yield from super().cures(trace, evidence)
            return
        says = "cool the card (fans, filters, room), or raise its power limit; `slowtrain doctor` says which it is"
        yield Prescription("advice", Effect.EXACT, says)


def _held(trace: Trace) -> Held | None:
    """Of the card that worked most: its clock in the readings during the steps that had a reason nobody chose."""
    at, steady = trace.samples.get("time_ms"), trace.steps.steady
    if at is None or not steady.any():
        return None
    inside = (at >= trace.steps.start_ms[steady][0]) & (at <= trace.steps.end_ms[steady][-1])
    found: list[tuple[float, Held]] = []
    for i, gpu in enumerate(driver_gpus(facts_of(trace))[:MOST_GPUS]):
        most = number_or_none(gpu.get("sm_mhz_max"))
        columns = [trace.samples.get(f"gpu_{what}_{i}") for what in ("sm_mhz", "throttle_bits", "util_share")]
        mhz, bits, use = columns
        if most is None or mhz is None or bits is None:
            continue
        seen = inside & np.isfinite(mhz) & np.isfinite(bits)
        reasons = np.nan_to_num(bits).astype(np.int64)
        ill = HELD & ~POWER if _at_its_default(gpu) else HELD
        held = seen & ((reasons & ill) != 0)
        if not held.any() or held.sum() < MOSTLY * seen.sum():
            continue
        busy = float(np.nanmean(use[seen])) if use is not None and np.isfinite(use[seen]).any() else 0.0
        clock, why = float(median_value(mhz[held])), int(np.bitwise_or.reduce(reasons[held])) & ill
        found.append((busy, Held(gpu_label(gpu), clock, most, float(held.sum() / seen.sum()), why)))
    return max(found, key=lambda one: one[0])[1] if found else None


def _at_its_default(gpu: Mapping[str, Any]) -> bool:
    """Whether the card may draw all that its maker lets it: at full load such a card always clocks down a little."""
    limit, usual = number_or_none(gpu.get("power_limit_watts")), number_or_none(gpu.get("power_limit_default_watts"))
    return limit is not None and usual is not None and limit >= usual
