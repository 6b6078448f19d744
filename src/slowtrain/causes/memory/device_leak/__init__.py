"""Device memory that grows from step to step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from slowtrain.causes import Cause
from slowtrain.model import Effect, Evidence, Prescription, Signal, VerdictKind
from slowtrain.script.locations import line_roles
from slowtrain.trace import Trace
from slowtrain.trace.signals import growth_suspects, memory_growth
from slowtrain.trace.signals.drift import step_growth
from slowtrain.trace.signals.growth_suspects import GrowingContainer
from slowtrain.trace.signals.memory_growth import MemorySlope
from slowtrain.whatif import Remedy

MIN_GROWN_BYTES = 32 << 20  # after warm-up: cuDNN's workspaces and the allocator's rounding vary by less
MAX_HOURS_UNTIL_FULL = 30 * 24.0  # no run lasts long enough to notice a slower growth
MAX_HOURS_TO_SPOIL = 24.0  # memory that is full before a run of a day has ended matters more than any saving


class DeviceGrowth(Struct, frozen=True):
    """Memory in use on ``device`` that grows by ``slope``, with containers that may keep it.

    ``left_bytes`` are full after ``hours``; both are None if unknown.
    """

    device: str
    slope: MemorySlope
    suspects: tuple[GrowingContainer, ...]
    left_bytes: float | None
    hours: float | None


class DeviceLeak(Cause[DeviceGrowth]):
    """What TensorFlow has in use on the GPU grows from step to step, until an allocation fails."""

    title = "Device memory grows"
    verdict_word = VerdictKind.MEMORY
    fills_memory = True
    lines_shared_as = "kept tensor"
    needs = frozenset({Signal.DEVICE_MEMORY})
    scope = "run"
    matters = True
    words = ("fit(",)

    def find(self, trace: Trace) -> DeviceGrowth | None:
        known = memory_growth.device_memory(trace)
        slopes = {name: memory_growth.memory_slope(trace, *series) for name, series in known.items()}
        grown = {n: s for n, s in slopes.items() if s is not None and s.grows and s.total_bytes >= MIN_GROWN_BYTES}
        if not grown:
            return None
        device, slope = max(grown.items(), key=lambda item: item[1].total_bytes)
        suspects = growth_suspects.main_suspects(growth_suspects.growing_containers(trace), slope.per_step)
        left = _left_bytes(trace, device, float(known[device][1][-1]))
        hours = slope.hours(left, trace.step_ms, step_growth.slower_ms_per_step(trace))
        if hours is not None and hours > MAX_HOURS_UNTIL_FULL:
            return None
        return DeviceGrowth(device, slope, tuple(suspects), left, hours)

    def evidence(self, trace: Trace, finding: DeviceGrowth) -> Evidence:
        unit = memory_growth.growth_unit(trace)
        keepers = "; ".join(one.describe(unit) for one in finding.suspects[:2])
        parts = [
            f"{finding.device}: {finding.slope.describe(unit)}",
            keepers or "none of the script's own names leads to what keeps it",
            finding.slope.time_until_full(finding.left_bytes, finding.hours),
        ]
        retraced = memory_growth.traces_per_step(trace) > 0
        places = line_roles.growth_places(trace, finding.suspects, retraced=retraced)
        return Evidence("; ".join(filter(None, parts)), finding.slope.numbers(finding.hours), places)

    def remedies(self, trace: Trace, finding: DeviceGrowth) -> Sequence[Remedy]:
        return []  # memory that is kept costs no time until it is full

    def spoils_in(self, trace: Trace, finding: DeviceGrowth) -> bool:
        """Whether the run will fail today."""
        return finding.hours is not None and finding.hours < MAX_HOURS_TO_SPOIL

    def cures(self, trace: Trace, finding: DeviceGrowth) -> Iterable[Prescription]:
        names = ", ".join(f"`{one.path}`" for one in finding.suspects[:3]) or "what is kept"
        yield Prescription("advice", Effect.EXACT, f"put numbers or arrays into {names}: float(loss), value.numpy()")
        yield Prescription("advice", Effect.EXACT, "give it a limit, or write it out and clear it")


def _left_bytes(trace: Trace, name: str, used: float) -> float | None:
    devices = trace.fact("machine", "gpu", "devices", default=())
    number = int(name.rpartition(":")[2] or 0)
    total = devices[number].get("memory_total_bytes") if number < len(devices) else None
    return max(float(total) - used, 0.0) if total else None
