"""Enough memory is free, but not in one piece."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slowtrain.causes import Cause
from slowtrain.model import Effect, Evidence, Prescription, Signal, VerdictKind
from slowtrain.number_text import format_number
from slowtrain.trace import Trace
from slowtrain.whatif import Remedy


class Fragmentation(Cause[Evidence]):
    """Enough memory is free in total, but no single piece of it is as large as the step's request."""

    title = "Free memory is in pieces that are too small"
    verdict_word = VerdictKind.MEMORY
    needs = frozenset({Signal.ALLOCATOR})
    scope = "run"
    matters = True

    def find(self, trace: Trace) -> Evidence | None:
        if trace.fact("launch", "exhausted", "outcome") == "fragmented":
            dump = trace.fact("launch", "exhausted")
            figures = ("asked_bytes", "free_bytes", "largest_free_bytes")
            return Evidence(str(dump.get("says")), {n: float(dump[n]) for n in figures if dump.get(n) is not None})
        for name, pool in sorted((trace.fact("pools", default=None) or {}).items()):
            share = pool.get("fragmentation_share")
            free = pool["limit_bytes"] - pool["in_use_bytes"]
            asked = pool["largest_request_bytes"]
            largest = free if share is None else (1 - share) * free
            if share is not None and largest < asked <= free:
                return Evidence(
                    f"{name}: of {format_number(free / 2**20)} MiB that are free, the largest piece is "
                    f"{format_number(largest / 2**20)} MiB, and one request of the step is "
                    f"{format_number(asked / 2**20)} MiB",
                    {"free_bytes": free, "fragmentation_share": share, "largest_request_bytes": asked},
                )
        return None

    def remedies(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        return []  # a request that fails ends the run, and one that succeeds costs no time

    def cures(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        if trace.on_accelerator:
            says = "set TF_GPU_ALLOCATOR=cuda_malloc_async, which joins free pieces"
            yield Prescription("setting", Effect.EXACT, says)
        yield Prescription(
            "advice", Effect.EXACT, "give every step the same shapes: drop_remainder=True, few padded lengths"
        )
