"""The memory is so nearly full that the allocator has to try twice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slowtrain.causes import Cause
from slowtrain.model import Effect, Evidence, Prescription, Signal, VerdictKind
from slowtrain.number_text import format_count, format_number
from slowtrain.trace import Trace
from slowtrain.whatif import Remedy


class NearCapacity(Cause[Evidence]):
    """The device's memory is so nearly full that requests fail at first and ops make do with less."""

    title = "The device's memory is nearly full"
    verdict_word = VerdictKind.MEMORY
    needs = frozenset({Signal.ALLOCATOR})
    scope = "run"
    matters = True

    def find(self, trace: Trace) -> Evidence | None:
        return _evidence_of_launch(trace) or _evidence_of_pools(trace)

    def remedies(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        return []  # the gain of the faster algorithms was not measured

    def cures(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        yield Prescription(
            "advice", Effect.CHANGES_TRAINING, "make the batch a little smaller; slowtrain batch shows by how much"
        )
        yield Prescription("advice", Effect.EXACT, "let nothing else use the device; keep fewer tensors on it")


def _evidence_of_launch(trace: Trace) -> Evidence | None:
    """Retries, and dumps that the script survived, which the launcher counted on standard error."""
    exhausted = trace.fact("launch", "exhausted", default=None) or {}
    retries = {str(k): int(v) for k, v in (exhausted.get("retries") or {}).items()}
    if retries:
        name, times = max(retries.items(), key=lambda item: item[1])
        return Evidence(
            f"{name} could not give the memory that was asked for {format_count(times, 'time')}, and the op went on "
            "with less",
            {"retries": float(sum(retries.values()))},
        )
    if exhausted.get("dumps") and trace.fact("launch", "exit_code") == 0:
        return Evidence(
            f"memory ran out {exhausted['dumps']:,} times and the script went on without what it had asked for: "
            f"{exhausted.get('says', '')}",
            {"dumps": float(exhausted["dumps"])},
        )
    return None


def _evidence_of_pools(trace: Trace) -> Evidence | None:
    """A pool of a profile that had less left at its peak than one request of the step."""
    for name, pool in sorted((trace.fact("pools", default=None) or {}).items()):
        left = pool["limit_bytes"] - pool["peak_bytes"]
        if left < pool["largest_request_bytes"]:
            return Evidence(
                f"{name} had {format_number(left / 2**20)} MiB of {format_number(pool['limit_bytes'] / 2**30)} GiB "
                f"left at its peak; one request of the step is "
                f"{format_number(pool['largest_request_bytes'] / 2**20)} MiB",
                {"left_bytes": left, "limit_bytes": pool["limit_bytes"], "peak_bytes": pool["peak_bytes"]},
            )
    return None
