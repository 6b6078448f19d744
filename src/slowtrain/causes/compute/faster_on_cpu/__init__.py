"""The CPU was measured to be faster than the GPU."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from slowtrain.causes import Cause
from slowtrain.model import Category, Effect, Evidence, Prescription, Signal
from slowtrain.trace import Trace
from slowtrain.whatif import Drop, Remedy


class FasterCpuSteps(Struct, frozen=True):
    """At a batch of ``batch`` the CPU was ``speedup`` times as fast, with ``threads`` if these were set.

    ``gpu_crossover``: from which batch on the GPU is faster, in words; empty if no such batch is known.
    """

    batch: int
    speedup: float
    threads: str
    gpu_crossover: str


class FasterOnCpu(Cause[FasterCpuSteps]):
    """The same steps take less time on the CPU than on the GPU, because they compute too little."""

    title = "The CPU would be faster"
    needs = frozenset({Signal.STEPS, Signal.CROSSOVER})

    def find(self, trace: Trace) -> FasterCpuSteps | None:
        crossover = trace.fact("crossover", default=None) or {}
        row = _own_batch_row(crossover)
        if row is None or not str(row.get("faster")).startswith("cpu") or not trace.on_accelerator:
            return None
        if not any(isinstance(s, dict) and s.get("name") == "gpu" for s in crossover.get("sides") or ()):
            return None  # two settings of the CPU were compared
        speedup = row["speedup"]
        if not speedup.get("low") or speedup["low"] <= 1:
            return None
        threads = str(row.get("faster")).partition(":threads=")[2]
        wins = _gpu_crossover(crossover) if crossover.get("winner") == "gpu" else ""
        return FasterCpuSteps(row["batch"], float(speedup["value"]), threads, wins)

    def evidence(self, trace: Trace, finding: FasterCpuSteps) -> Evidence:
        says = f"at a batch of {finding.batch:,} the CPU was measured to be {finding.speedup:.2f}x as fast"
        says += f"; the GPU {finding.gpu_crossover}" if finding.gpu_crossover else ""
        return Evidence(says, {"speedup": finding.speedup, "batch": float(finding.batch)})

    def remedies(self, trace: Trace, finding: FasterCpuSteps) -> Sequence[Remedy]:
        saved_ms = trace.step_ms * (1 - 1 / finding.speedup)
        parts: dict[Category, float] = {}
        for category in sorted(trace.categories, key=trace.mean, reverse=True):
            parts[category] = min(trace.mean(category), saved_ms - sum(parts.values()))
        return [Drop({c: ms for c, ms in parts.items() if ms > 0})]

    def cures(self, trace: Trace, finding: FasterCpuSteps) -> Iterable[Prescription]:
        setting = "JAX_PLATFORMS=cpu" if trace.on_jax else "CUDA_VISIBLE_DEVICES=-1"
        says = f"set {setting} for this script, so that it runs on the CPU"
        says += f", measured with {finding.threads} threads" if finding.threads else ""
        yield Prescription("setting", Effect.EQUIVALENT, says)
        if finding.gpu_crossover:
            says = f"or use a larger batch: the GPU {finding.gpu_crossover}"
            yield Prescription("advice", Effect.CHANGES_TRAINING, says)


def _own_batch_row(crossover: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The measurement at the script's own batch."""
    rows = [r for r in crossover.get("batches") or () if isinstance(r, dict) and isinstance(r.get("speedup"), dict)]
    return next((r for r in rows if r.get("batch") == crossover.get("own_batch")), None)


def _gpu_crossover(crossover: Mapping[str, Any]) -> str:
    """From which batch on the GPU is faster, and how certain that is; empty if no such batch is known."""
    start = crossover.get("from_batch")
    if not isinstance(start, dict) or not start.get("value"):
        return ""
    value, low, high = start["value"], start.get("low") or 0, start.get("high")
    if not high:
        return f"may be faster from a batch of {value:,.0f} on, which is not certain"
    return f"is faster from a batch of {value:,.0f} on ({low:,.0f} to {high:,.0f})"
