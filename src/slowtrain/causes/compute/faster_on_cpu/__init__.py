"""The work is too small for the device."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from slowtrain.causes import Cause
from slowtrain.model import Category, Effect, Evidence, Prescription, Signal
from slowtrain.trace import Trace
from slowtrain.whatif import Drop, Remedy


class FasterOnCpu(Cause[Evidence]):
    """The same steps take less time on the CPU than on the GPU: what they compute is too small for the device."""

    title = "The CPU would be faster"
    needs = frozenset({Signal.STEPS, Signal.CROSSOVER})

    def find(self, trace: Trace) -> Evidence | None:
        row = _row(trace)
        if row is None or not str(row.get("faster")).startswith("cpu") or not trace.on_accelerator:
            return None
        if not any(isinstance(s, dict) and s.get("name") == "gpu" for s in trace.fact("crossover").get("sides") or ()):
            return None  # two settings of the CPU were held against each other
        speedup = row["speedup"]
        if not speedup.get("low") or speedup["low"] <= 1:
            return None
        told = trace.fact("crossover")
        later = f"; the GPU {start}" if told.get("winner") == "gpu" and (start := _start(told)) else ""
        numbers = {"speedup": float(speedup["value"]), "batch": float(row["batch"])}
        says = f"at a batch of {row['batch']:,} the CPU was measured to be {speedup['value']:.2f}x as fast"
        return Evidence(says + later, numbers)

    def remedies(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        gone = trace.step_ms * (1 - 1 / evidence.numbers["speedup"])
        parts: dict[Category, float] = {}
        for category in sorted(trace.categories, key=trace.mean, reverse=True):
            parts[category] = min(trace.mean(category), gone - sum(parts.values()))
        return [Drop({c: ms for c, ms in parts.items() if ms > 0})]

    def cures(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        on_jax = trace.on_jax
        setting = "JAX_PLATFORMS=cpu" if on_jax else "CUDA_VISIBLE_DEVICES=-1"
        threads = str((_row(trace) or {}).get("faster")).partition(":threads=")[2]
        says = f"set {setting} for this script: it runs on the CPU"
        says += f", measured with {threads} threads" if threads else ""
        yield Prescription("setting", Effect.EQUIVALENT, says)
        told = trace.fact("crossover") or {}
        if told.get("winner") == "gpu" and (start := _start(told)):
            yield Prescription("advice", Effect.CHANGES_TRAINING, f"or take a larger batch: the GPU {start}")


def _row(trace: Trace) -> Mapping[str, Any] | None:
    """What was measured at the script's own batch."""
    told = trace.fact("crossover", default=None) or {}
    rows = [r for r in told.get("batches") or () if isinstance(r, dict) and isinstance(r.get("speedup"), dict)]
    return next((r for r in rows if r.get("batch") == told.get("own_batch")), None)


def _start(told: Mapping[str, Any]) -> str:
    """From which batch on the GPU wins, and how sure that is; empty where no such batch is known."""
    start = told.get("from_batch")
    if not isinstance(start, dict) or not start.get("value"):
        return ""
    value, low, high = start["value"], start.get("low") or 0, start.get("high")
    if not high:
        return f"may win from a batch of {value:,.0f} on, which is not certain"
    return f"wins from a batch of {value:,.0f} on ({low:,.0f} to {high:,.0f})"
