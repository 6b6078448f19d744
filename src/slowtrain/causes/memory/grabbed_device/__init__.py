"""Several processes share a card, and one of them has taken all of its memory."""

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
from slowtrain.trace.signals import memory_growth
from slowtrain.whatif import Remedy

# Of the card's memory: TensorFlow leaves a few hundred MiB to the driver (gpu_device.cc: 225 to 1,740).
MIN_TAKEN_SHARE = 0.9
MIN_TAKEN_SHARE_JAX = 0.7  # JAX takes three quarters: with its context 64.9 of an H100's 85.5 GB


class GrabbedDevice(Cause[Evidence]):
    """The card is shared, and one process holds memory that it does not use while another has too little."""

    title = "One process has taken the whole card"
    verdict_word = VerdictKind.MEMORY
    needs = frozenset({Signal.FACTS, Signal.DEVICE_MEMORY})
    scope = "run"
    matters = True

    def wants(self, trace: Trace) -> frozenset[Signal]:
        facts = machine_facts(trace)
        processes_known = any(isinstance(card.get("compute_processes"), list) for card in driver_gpus(facts))
        no_card = has_nvidia_gpu(facts) is False
        if processes_known or no_card or trace.fact("launch", "exhausted", "outcome") is not None:
            return self.needs
        return self.needs | {Signal.CARD}

    def find(self, trace: Trace) -> Evidence | None:
        dump = trace.fact("launch", "exhausted", default=None) or {}
        if dump.get("outcome") == "taken by others" and dump.get("pool") == "device":
            return Evidence(str(dump.get("says")), {"growth_bytes": float(dump.get("growth_bytes") or 0)})
        used = memory_growth.device_memory(trace)
        for number, card in enumerate(trace.fact("machine", "gpu", "devices", default=None) or ()):
            found = _evidence_of_card(trace, number, card, used)
            if found is not None:
                return found
        return None

    def remedies(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        return []  # it is the other process that gains

    def cures(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        on_jax = trace.on_jax
        grow = "XLA_PYTHON_CLIENT_PREALLOCATE=false" if on_jax else "TF_FORCE_GPU_ALLOW_GROWTH=true"
        part = "XLA_PYTHON_CLIENT_MEM_FRACTION" if on_jax else "a memory_limit"
        yield Prescription("setting", Effect.EXACT, f"set {grow}, or {part} for each process")
        yield Prescription("setting", Effect.EXACT, "run one process on each card: CUDA_VISIBLE_DEVICES")


def _evidence_of_card(trace: Trace, number: int, card: Mapping[str, Any], used: Mapping[str, Any]) -> Evidence | None:
    own_pid = trace.fact("child", "pid")
    others = [p for p in card.get("compute_processes") or () if p.get("pid") != own_pid]
    taken, total = _max_taken_bytes(trace, number), card.get("memory_total_bytes")
    series = used.get(f"GPU:{number}")
    if not others or taken is None or not total or series is None or not len(series[1]):
        return None
    needed = float(series[1].max())
    others_bytes = sum(float(p.get("memory_used_bytes") or 0) for p in others)
    on_jax = trace.fact("keras", "backend") == "jax"
    least = (MIN_TAKEN_SHARE_JAX if on_jax else MIN_TAKEN_SHARE) * total
    if taken < least or needed > (taken - others_bytes) / 2:
        return None
    return Evidence(
        f"{format_number(taken / 2**30)} of {format_number(total / 2**30)} GiB of card {number} are taken; this script "
        f"used {format_number(needed / 2**30)} GiB at most; other processes there: {len(others)}",
        {"taken_bytes": taken, "used_bytes": needed, "others_bytes": others_bytes},
    )


def _max_taken_bytes(trace: Trace, number: int) -> float | None:
    """The largest value that the driver reported as taken of a card."""
    series = trace.samples.get(f"gpu_memory_used_bytes_{number}")
    known = series[np.isfinite(series)] if series is not None else ()
    return float(max(known)) if len(known) else None
