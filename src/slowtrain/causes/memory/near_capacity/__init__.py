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
        heard = trace.fact("launch", "exhausted", default=None) or {}
        retries = {str(k): int(v) for k, v in (heard.get("retries") or {}).items()}
        if retries:
            name, times = max(retries.items(), key=lambda item: item[1])
            return Evidence(
                f"{name} could not give what was asked {format_count(times, 'time')}, and the op went on with less",
                {"retries": float(sum(retries.values()))},
            )
        if heard.get("dumps") and trace.fact("launch", "exit_code") == 0:
            return Evidence(
                f"memory ran out {heard['dumps']:,} times and the script went on without what it had asked for: "
                f"{heard.get('says', '')}",
                {"dumps": float(heard["dumps"])},
            )
        for name, pool in sorted((trace.fact("pools", default=None) or {}).items()):
            left = pool["limit_bytes"] - pool["peak_bytes"]
            if left < pool["largest_request_bytes"]:
                return Evidence(
                    f"{name} had {format_number(left / 2**20)} MiB of {format_number(pool['limit_bytes'] / 2**30)} "
                    "GiB left at its peak; one "
                    f"request of the step is {format_number(pool['largest_request_bytes'] / 2**20)} MiB",
                    {"left_bytes": left, "limit_bytes": pool["limit_bytes"], "peak_bytes": pool["peak_bytes"]},
                )
        return None

    def remedies(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        return []  # what the faster algorithms would give was not measured

    def cures(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        yield Prescription(
            "advice", Effect.CHANGES_TRAINING, "make the batch a little smaller; slowtrain batch tells how far"
        )
        yield Prescription("advice", Effect.EXACT, "let nothing else use the device; keep fewer tensors on it")
