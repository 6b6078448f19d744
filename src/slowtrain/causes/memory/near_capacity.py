"""The memory is so nearly full that the allocator has to try twice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slowtrain.causes import Cause
from slowtrain.model import Effect, Evidence, Prescription, Signal, VerdictKind
from slowtrain.number_text import format_count, format_number
from slowtrain.trace import Trace
from slowtrain.whatif import Remedy


class NearCapacity(Cause):
    """The device's memory is so nearly full that requests fail at first and ops make do with less.

    ## What it means
    Convolutions choose their algorithm by what workspace they get: with less they take a slower one. TensorFlow says
    so once for each, "this is not a failure, but there could be performance gains if more memory were available".
    One more layer, or a longer sequence, and the run ends.

    ## How it is recognised
    By the allocator's own warnings on standard error, counted; or in a profile by its figures: at its peak it had less
    left than the largest single request of the step. How full the driver says the card is means nothing: TensorFlow
    takes it whole at the start.

    ## What to do
    A batch somewhat smaller, mixed precision, or fewer tensors kept. `slowtrain memory` tells what holds it.

    ## When it is not worth it
    When the warnings come in the first steps only, while algorithms are tried: the choice is made once.
    """

    title = "The device's memory is nearly full"
    verdict_word = VerdictKind.MEMORY
    needs = frozenset({Signal.ALLOCATOR})
    scope = "run"
    matters = True

    def examine(self, trace: Trace) -> Evidence | None:
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

    def remedy(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        return []  # what the faster algorithms would give was not measured

    def prescribe(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        yield Prescription(
            "advice", Effect.CHANGES_TRAINING, "make the batch a little smaller; slowtrain batch tells how far"
        )
        yield Prescription("advice", Effect.EXACT, "let nothing else use the device; keep fewer tensors on it")

    fires = (
        """
        step    111222333
        device  kkkkkkkkk
        @fact launch={"exit_code":0,"heard":true,"exhausted":{"dumps":3,"says":"full"}}
        """,
        """
        step    111222333
        device  kkkkkkkkk
        @fact launch={"exit_code":0,"exhausted":{"dumps":0,"retries":{"GPU_0_bfc":12}}}
        """,
        """
        step    111222333
        device  kkkkkkkkk
        @fact profile=true pools={"GPU_0_bfc":{"in_use_bytes":9e9,"limit_bytes":10e9,"peak_bytes":9.9e9,"requests":9,
        & "largest_request_bytes":5e8}}
        """,
    )
    quiet = (
        """
        step    111222333
        device  kkkkkkkkk
        @fact launch={"exit_code":1,"heard":true,"exhausted":{"dumps":3,"says":"full"}}
        """,
        """
        step    111222333
        device  kkkkkkkkk
        @fact launch={"exit_code":0,"heard":true}
        """,
        """
        step    111222333
        device  kkkkkkkkk
        @fact pools={"GPU_0_bfc":{"in_use_bytes":5e9,"limit_bytes":10e9,"peak_bytes":6e9,"requests":9,
        & "largest_request_bytes":5e8}}
        """,
    )
