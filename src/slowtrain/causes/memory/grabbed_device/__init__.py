"""Several processes on one card, and one of them has taken all of its memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from slowtrain.causes import Cause
from slowtrain.causes.fact_causes import machine_facts
from slowtrain.machine.tables.fact_access import driver_gpus, has_nvidia_gpu
from slowtrain.model import Effect, Evidence, Prescription, Signal, VerdictKind
from slowtrain.number_text import format_number
from slowtrain.trace import Trace
from slowtrain.trace.signals.memory import memory_growth
from slowtrain.whatif import Remedy

NEARLY_ALL = (
    0.9  # of what the card has: TensorFlow leaves a few hundred MiB to the driver (gpu_device.cc: 225 to 1,740)
)
BY_JAX = 0.7  # JAX takes three quarters: with its context 64.9 of an H100's 85.5 GB


class GrabbedDevice(Cause[Evidence]):
    """The card is shared, and one process holds memory that it does not use while another has too little."""

    title = "One process has taken the whole card"
    verdict_word = VerdictKind.MEMORY
    needs = frozenset({Signal.FACTS, Signal.DEVICE_MEMORY})
    scope = "run"
    matters = True

    def wants(self, trace: Trace) -> frozenset[Signal]:
        # The driver's part stands among the facts, or it was not to be had. Where there is no card, none is shared.
        facts = machine_facts(trace)
        told = (
            any(isinstance(card.get("compute_processes"), list) for card in driver_gpus(facts))
            or has_nvidia_gpu(facts) is False
        )
        if told or trace.fact("launch", "exhausted", "outcome") is not None:
            return self.needs
        return self.needs | {Signal.CARD}

    def find(self, trace: Trace) -> Evidence | None:
        told = trace.fact("launch", "exhausted", default=None) or {}
        if told.get("outcome") == "taken by others" and told.get("pool") == "device":
            return Evidence(str(told.get("says")), {"growth_bytes": float(told.get("growth_bytes") or 0)})
        used = memory_growth.device_memory(trace)
        for number, card in enumerate(trace.fact("machine", "gpu", "devices", default=None) or ()):
            found = self._grabbed(trace, number, card, used)
            if found is not None:
                return found
        return None

    def _grabbed(self, trace: Trace, number: int, card: Mapping[str, Any], used: Mapping[str, Any]) -> Evidence | None:
        mine = trace.fact("child", "pid")
        others = [p for p in card.get("compute_processes") or () if p.get("pid") != mine]
        taken, total = _most(trace, number), card.get("memory_total_bytes")
        series = used.get(f"GPU:{number}")
        if not others or taken is None or not total or series is None or not len(series[1]):
            return None
        need = float(series[1].max())
        theirs = sum(float(p.get("memory_used_bytes") or 0) for p in others)
        nearly_all = BY_JAX if trace.fact("keras", "backend") == "jax" else NEARLY_ALL
        if taken < nearly_all * total or need > (taken - theirs) / 2:
            return None
        return Evidence(
            f"{format_number(taken / 2**30)} of {format_number(total / 2**30)} GiB of card {number} are taken; "
            "this script used "
            f"{format_number(need / 2**30)} GiB at most; other processes there: {len(others)}",
            {"taken_bytes": taken, "used_bytes": need, "others_bytes": theirs},
        )

    def remedies(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        return []  # it is the other process that gains

    def cures(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        on_jax = trace.on_jax
        grow = "XLA_PYTHON_CLIENT_PREALLOCATE=false" if on_jax else "TF_FORCE_GPU_ALLOW_GROWTH=true"
        part = "XLA_PYTHON_CLIENT_MEM_FRACTION" if on_jax else "a memory_limit"
        yield Prescription("setting", Effect.EXACT, f"{grow}, or {part} for each process")
        yield Prescription("setting", Effect.EXACT, "one process a card: CUDA_VISIBLE_DEVICES")


def _most(trace: Trace, number: int) -> float | None:
    """What the driver said was taken of a card, at most."""
    series = trace.samples.get(f"gpu_memory_used_bytes_{number}")
    known = series[np.isfinite(series)] if series is not None else ()
    return float(max(known)) if len(known) else None
