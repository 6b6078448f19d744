"""Batches cross to the device in wider numbers than they hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from slowtrain.causes import MIN_SYMPTOM_SHARE, Cause
from slowtrain.causes.transfer.wide_input import fix
from slowtrain.causes.transfer.wide_input.wide_part import (
    MIN_BYTES_SHARE,
    WidePart,
    casts_bytes_on_device,
    has_element_types,
    wide_part_by_array,
    wide_part_by_casts,
    wide_part_by_pipeline,
)
from slowtrain.model import Category, Effect, Evidence, Prescription, Signal
from slowtrain.number_text import format_number
from slowtrain.trace import Trace
from slowtrain.whatif import Drop, Remedy

BATCH_CUT_MS = 0.15  # of cutting a batch from arrays, whatever its size
COPY_START_MS = 0.02  # of a copy, whatever its size: the rest of its time depends on the bytes


@dataclass(frozen=True)
class WideInputFinding:
    """The wide part of a batch, and the ms of a step that its bytes take: to be copied, and to be cut from arrays."""

    part: WidePart
    copy_ms: float
    cut_ms: float
    copied_bytes: float


class WideInput(Cause[WideInputFinding]):
    """Batches are copied to the device in float32 or float64, though they began as uint8."""

    title = "Input crosses to the device in wide numbers"
    needs = frozenset({Signal.STEPS, Signal.DEVICE})
    words = ("from_tensor_slices", "uint8", "decode_jpeg", "decode_png")

    def wants(self, trace: Trace) -> frozenset[Signal]:
        known = trace.share(Category.FEED) < MIN_SYMPTOM_SHARE or wide_part_by_casts(trace) is not None
        known = known or casts_bytes_on_device(trace) or wide_part_by_array(trace) is not None
        known = known or has_element_types(trace.pipeline)
        return super().wants(trace) | (set() if known else {Signal.PIPELINE, Signal.WRITTEN})

    def find(self, trace: Trace) -> WideInputFinding | None:
        by_array = wide_part_by_array(trace)
        part = wide_part_by_pipeline(trace.pipeline) or wide_part_by_casts(trace) or by_array
        copied = trace.device.copies.get("h2d") if trace.device is not None else None
        copy_ms = max(trace.mean(Category.FEED) - copied.count * COPY_START_MS, 0.0) if copied is not None else 0.0
        # The step's own thread cuts a batch out of arrays. What that takes beyond the call depends on the bytes.
        from_arrays = not trace.pipelines and by_array is not None
        cut_ms = max(trace.mean(Category.INPUT) - BATCH_CUT_MS, 0.0) if from_arrays else 0.0
        if part is None or part.share < MIN_BYTES_SHARE or copy_ms + cut_ms <= 0 or copied is None:
            return None
        return WideInputFinding(part, copy_ms, cut_ms, copied.bytes)

    def evidence(self, trace: Trace, finding: WideInputFinding) -> Evidence:
        part, ms = finding.part, finding.copy_ms + finding.cut_ms
        way = "cut from their arrays and on their way" if finding.cut_ms > 0 else "on their way"
        return Evidence(
            f"each step waits {format_number(ms)} of {format_number(trace.step_ms)} ms for "
            f"{format_number(finding.copied_bytes / 1e6)} MB {way} to the device, "
            f"{part.share:.0%} of them {part.dtype} that could be {part.narrow}",
            {
                "feed_ms": finding.copy_ms,
                "made_ms": finding.cut_ms,
                "wide_share": part.share,
                "copied_bytes": finding.copied_bytes,
                "saved_share": part.saved_share,
            },
            (part.place,) if part.place else (),
        )

    def remedies(self, trace: Trace, finding: WideInputFinding) -> Sequence[Remedy]:
        # The host's work for a copy shrinks with the bytes as well, except the part that is paid for each call.
        saved = finding.part.saved_share
        drops = {Category.FEED: saved * finding.copy_ms, Category.INPUT: saved * finding.cut_ms}
        return [Drop(drops, 0.5, (0.6, 1.1))]

    def cures(self, trace: Trace, finding: WideInputFinding) -> Iterable[Prescription]:
        says, made = fix.narrowing_edits(trace, finding.part)
        yield Prescription("edit", Effect.EQUIVALENT, says, edits=made)
