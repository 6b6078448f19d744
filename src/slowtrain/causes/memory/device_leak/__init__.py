"""Device memory that grows from step to step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slowtrain.causes import Cause
from slowtrain.model import Effect, Evidence, Prescription, Signal, VerdictKind
from slowtrain.script.locations import growth_lines
from slowtrain.trace import Trace
from slowtrain.trace.signals.drift import step_growth
from slowtrain.trace.signals.memory import growth_suspects, memory_growth
from slowtrain.whatif import Remedy

LEAST_BYTES = 32 << 20  # gained after warm-up: cuDNN's workspaces and the allocator's rounding come and go by less
LONGEST_H = 30 * 24.0  # at a rate that fills the memory later than this, no run would notice
SOON_H = 24.0  # before a run of a day has ended: then nothing else matters as much


class DeviceLeak(Cause[Evidence]):
    """What TensorFlow has in use on the GPU grows from step to step, until an allocation fails."""

    title = "Device memory grows"
    verdict_word = VerdictKind.MEMORY
    fills_memory = True
    lines_shared_as = "kept tensor"
    needs = frozenset({Signal.DEVICE_MEMORY})
    scope = "run"
    matters = True
    words = ("fit(",)

    def find(self, trace: Trace) -> Evidence | None:
        known = memory_growth.device_memory(trace)
        slopes = {name: memory_growth.memory_slope(trace, *series) for name, series in known.items()}
        grown = {n: s for n, s in slopes.items() if s is not None and s.grows and s.total_bytes >= LEAST_BYTES}
        if not grown:
            return None
        name, found = max(grown.items(), key=lambda item: item[1].total_bytes)
        why = growth_suspects.main_suspects(growth_suspects.growing_containers(trace), found.per_step)
        left = _left_bytes(trace, name, float(known[name][1][-1]))
        hours = found.hours(left, trace.step_ms, step_growth.slower_ms_per_step(trace))
        if hours is not None and hours > LONGEST_H:
            return None
        numbers = found.numbers(hours)
        unit = memory_growth.growth_unit(trace)
        what = "; ".join(one.said(unit) for one in why[:2]) or "what keeps it is behind none of the script's own names"
        said = [f"{name}: {found.said(unit)}", what, found.until(left, hours)]
        retraced = memory_growth.traces_per_step(trace) > 0
        return Evidence(
            "; ".join(filter(None, said)), numbers, growth_lines.growth_places(trace, why, retraced=retraced)
        )

    def remedies(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        return []  # memory that is kept costs no time until it is full

    def spoils_in(self, trace: Trace, evidence: Evidence) -> bool:
        """A run that will fail today."""
        return evidence.numbers.get("full_in_h", LONGEST_H) < SOON_H

    def cures(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        why = growth_suspects.main_suspects(
            growth_suspects.growing_containers(trace), evidence.numbers["per_step_bytes"]
        )
        kept = ", ".join(f"`{one.path}`" for one in why[:3]) or "what is kept"
        yield Prescription("advice", Effect.EXACT, f"put numbers or arrays into {kept}: float(loss), value.numpy()")
        yield Prescription("advice", Effect.EXACT, "give it a limit, or write it out and clear it")


def _left_bytes(trace: Trace, name: str, used: float) -> float | None:
    devices = trace.fact("machine", "gpu", "devices", default=())
    number = int(name.rpartition(":")[2] or 0)
    total = devices[number].get("memory_total_bytes") if number < len(devices) else None
    return max(float(total) - used, 0.0) if total else None
