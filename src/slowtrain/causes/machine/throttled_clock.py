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


class ThrottledClock(Judged, Cause):
    """Heat or power hold the card's clock down while it works.

    ## What it means
    A card that gets too hot, or may draw less power than it could, lowers its clock. All its arithmetic then
    takes longer by about as much, and nothing but the driver says so.

    ## How it is recognised
    The driver gives the clock, its highest value and the reasons for a lower one. Only what is read at work
    counts: in a run during its steps, in `slowtrain doctor` during a short load of its own. A card at rest
    clocks down and is fine, and so is one that works hard within its default power limit. A limit below that is named.
    With `slowtrain diagnose --facts` it is the doctor's load again, which can show a fault, and not that the profile's
    steps had none.

    ## What to do
    Against heat: fans, filters, the slot beside it, the room's air. Against a power limit: `nvidia-smi -pl`
    with the card's default. In a rented machine take another one.

    ## When it is not worth it
    When memory and not arithmetic is the card's limit, or the step waits for its input: then the clock hardly
    matters.
    """

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

    def examine(self, trace: Trace) -> Evidence | None:
        if trace.fact("doctor") or given(trace):
            return super().examine(trace)
        held = _held(trace)
        if held is None:
            return None
        return Evidence(
            f"in {held.share:.0%} of the readings during the steps the clock of {held.name} was held down "
            f"({', '.join(describe_throttle_bits(held.bits) or ())}): {held.mhz:.0f} of {held.most_mhz:.0f} MHz",
            {"clock_share": held.mhz / held.most_mhz, "held_share": held.share},
        )

    def remedy(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        held = None if trace.fact("doctor") or given(trace) else _held(trace)
        if held is None:
            return []
        # At its full clock all arithmetic would take that share of its time; what waits for memory gains nothing.
        saved = trace.mean(Category.DEVICE) * (1 - held.mhz / held.most_mhz) * held.share
        return [Drop({Category.DEVICE: saved}, 0.0, (0.2, 1.05))]

    def prescribe(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        if trace.fact("doctor") or given(trace):
            yield from super().prescribe(trace, evidence)
            return
        says = "cool the card (fans, filters, room), or raise its power limit; `slowtrain doctor` says which it is"
        yield Prescription("advice", Effect.EXACT, says)

    fires = (
        """
        step    1111111111
        device  kkkkkkkkkk
        @fact devices=[{"kind":"GPU"}]
        @fact machine={"gpu":{"devices":[{"index":0,"name":"Tesla T4","sm_mhz_max":1590}]}}
        @sample gpu_sm_mhz_0=600 gpu_throttle_bits_0=32 gpu_util_share_0=0.98
        @device busy=10
        """,
        """
        step    1111111111
        device  kkkkkkkkkk
        @fact devices=[{"kind":"GPU"}]
        @fact machine={"gpu":{"devices":[{"index":0,"name":"NVIDIA H100","sm_mhz_max":1980,"power_limit_watts":350,
        & "power_limit_default_watts":700}]}}
        @sample gpu_sm_mhz_0=1100 gpu_throttle_bits_0=4 gpu_util_share_0=0.98
        @device busy=10
        """,
    )
    quiet = (
        # All the power that it may have by default: that is how fast this card is.
        """
        step    1111111111
        device  kkkkkkkkkk
        @fact devices=[{"kind":"GPU"}]
        @fact machine={"gpu":{"devices":[{"index":0,"name":"NVIDIA H100","sm_mhz_max":1980,"power_limit_watts":700,
        & "power_limit_default_watts":700}]}}
        @sample gpu_sm_mhz_0=1440 gpu_throttle_bits_0=4 gpu_util_share_0=0.98
        @device busy=10
        """,
        """
        step    1111111111
        device  kkkkkkkkkk
        @fact devices=[{"kind":"GPU"}]
        @fact machine={"gpu":{"devices":[{"index":0,"name":"Tesla T4","sm_mhz_max":1590}]}}
        @sample gpu_sm_mhz_0=1515 gpu_throttle_bits_0=4 gpu_util_share_0=0.98
        @device busy=10
        """,
        """
        step    1111111111
        input   iiiiiiiii.
        device  .........k
        @fact devices=[{"kind":"GPU"}]
        @fact machine={"gpu":{"devices":[{"index":0,"name":"Tesla T4","sm_mhz_max":1590}]}}
        @sample gpu_sm_mhz_0=300 gpu_throttle_bits_0=1 gpu_util_share_0=0.1
        @device busy=1
        """,
    )


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
