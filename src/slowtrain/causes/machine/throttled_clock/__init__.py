"""Heat or a power limit lowers the clock of the card."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from slowtrain.causes import Cause, fact_causes
from slowtrain.columns.arrays import median_value
from slowtrain.machine.tables.fact_access import describe_throttle_bits, driver_gpus, gpu_label, number_or_none
from slowtrain.model import Category, Effect, Evidence, Prescription, Signal
from slowtrain.trace import Trace
from slowtrain.whatif import Drop, Remedy

MIN_THROTTLED_SHARE = 0.5  # of the readings during the steps: with less, the clock was lowered only for a moment
# Reasons that nobody chose: power limit, hardware slowdown, heat, power brake.
POWER_BIT = 0x4
THROTTLE_BITS = POWER_BIT | 0x8 | 0x20 | 0x40 | 0x80
MAX_GPUS = 16


class ThrottledGpu(Struct, frozen=True):
    """A card's clock during the steps, its maximum, and NVML's reasons. ``share``: of the readings."""

    name: str
    mhz: float
    max_mhz: float
    share: float
    bits: int

    @property
    def clock_share(self) -> float:
        return self.mhz / self.max_mhz


class ThrottledClock(Cause[ThrottledGpu | Evidence]):
    """Heat or a power limit lowers the card's clock while it works."""

    title = "Heat or power lowers the GPU's clock"
    machine_topic = "clocks"
    doctor_rank = 40
    needs = frozenset({Signal.FACTS, Signal.LOAD})

    def wants(self, trace: Trace) -> frozenset[Signal]:
        # A run has readings of its own. The doctor has no run, but a load of its own, or none.
        if trace.fact("doctor"):
            return frozenset({Signal.FACTS}) | fact_causes.missing_fact_signals(trace, self.id)
        if fact_causes.has_given_facts(trace):
            wanted = fact_causes.missing_fact_signals(trace, self.id) | fact_causes.recheck_signals(
                trace, self.id, Signal.LOAD
            )
            return frozenset({Signal.FACTS}) | wanted
        return self.needs

    def matters_in(self, trace: Trace) -> bool:
        return fact_causes.has_given_facts(trace)  # the clock at another time does not show what it cost these steps

    def find(self, trace: Trace) -> ThrottledGpu | Evidence | None:
        """By the facts in the doctor and next to a profile; by the readings during the steps in a run."""
        if trace.fact("doctor") or fact_causes.has_given_facts(trace):
            return fact_causes.wrong_checks_evidence(trace, self.id)
        return _find_throttled_gpu(trace)

    def evidence(self, trace: Trace, finding: ThrottledGpu | Evidence) -> Evidence:
        if isinstance(finding, Evidence):
            return finding
        reasons = ", ".join(describe_throttle_bits(finding.bits) or ())
        return Evidence(
            f"in {finding.share:.0%} of the readings during the steps the clock of {finding.name} was lowered "
            f"({reasons}): {finding.mhz:.0f} of {finding.max_mhz:.0f} MHz",
            {"clock_share": finding.clock_share, "held_share": finding.share},
        )

    def remedies(self, trace: Trace, finding: ThrottledGpu | Evidence) -> Sequence[Remedy]:
        if isinstance(finding, Evidence):
            return []
        # At the full clock all arithmetic takes that share of its time. Kernels that memory bounds gain nothing.
        saved_ms = trace.mean(Category.DEVICE) * (1 - finding.clock_share) * finding.share
        return [Drop({Category.DEVICE: saved_ms}, 0.0, (0.2, 1.05))]

    def cures(self, trace: Trace, finding: ThrottledGpu | Evidence) -> Iterable[Prescription]:
        if isinstance(finding, Evidence):
            return fact_causes.check_cures(trace, self.id)
        says = "cool the card (fans, filters, room), or raise its power limit; `slowtrain doctor` says which it is"
        return (Prescription("advice", Effect.EXACT, says),)


def _find_throttled_gpu(trace: Trace) -> ThrottledGpu | None:
    """The card that worked most, with its clock in the readings that have one of ``THROTTLE_BITS``."""
    at, steady = trace.samples.get("time_ms"), trace.steps.steady
    if at is None or not steady.any():
        return None
    inside = (at >= trace.steps.start_ms[steady][0]) & (at <= trace.steps.end_ms[steady][-1])
    found: list[tuple[float, ThrottledGpu]] = []
    for i, gpu in enumerate(driver_gpus(fact_causes.machine_facts(trace))[:MAX_GPUS]):
        max_mhz = number_or_none(gpu.get("sm_mhz_max"))
        mhz, bits, use = (trace.samples.get(f"gpu_{what}_{i}") for what in ("sm_mhz", "throttle_bits", "util_share"))
        if max_mhz is None or mhz is None or bits is None:
            continue
        seen = inside & np.isfinite(mhz) & np.isfinite(bits)
        reasons = np.nan_to_num(bits).astype(np.int64)
        counted = THROTTLE_BITS & ~POWER_BIT if _has_full_power_limit(gpu) else THROTTLE_BITS
        throttled = seen & ((reasons & counted) != 0)
        if not throttled.any() or throttled.sum() < MIN_THROTTLED_SHARE * seen.sum():
            continue
        busy = float(np.nanmean(use[seen])) if use is not None and np.isfinite(use[seen]).any() else 0.0
        clock, why = float(median_value(mhz[throttled])), int(np.bitwise_or.reduce(reasons[throttled])) & counted
        found.append((busy, ThrottledGpu(gpu_label(gpu), clock, max_mhz, float(throttled.sum() / seen.sum()), why)))
    return max(found, key=lambda one: one[0])[1] if found else None


def _has_full_power_limit(gpu: Mapping[str, Any]) -> bool:
    """Whether the power limit is the default. At full load such a card always lowers its clock a little."""
    limit, usual = number_or_none(gpu.get("power_limit_watts")), number_or_none(gpu.get("power_limit_default_watts"))
    return limit is not None and usual is not None and limit >= usual
