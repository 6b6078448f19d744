"""Batches cross to the device in wider numbers than they hold."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from math import prod
from typing import Any

from msgspec import Struct

from slowtrain.causes import MIN_SYMPTOM_SHARE, Cause
from slowtrain.columns.arrays import median_value
from slowtrain.columns.input_pipeline import Pipeline, WrittenDataset
from slowtrain.model import Category, Evidence, Place, Signal
from slowtrain.number_text import format_number
from slowtrain.profile import device_activity
from slowtrain.script.locations.recorded_sources import recorded_source
from slowtrain.trace import Trace
from slowtrain.trace.signals.device import tensor_cores
from slowtrain.trace.signals.host.source_lines import called_name, last_name
from slowtrain.whatif import Drop, Remedy

BATCH_CUT_MS = 0.15  # of cutting a batch from arrays, whatever its size
COPY_START_MS = 0.02  # of a copy, whatever its size: the rest of its time depends on the bytes
BYTES_BY_DTYPE = {"uint8": 1, "float16": 2, "bfloat16": 2, "float32": 4, "int32": 4, "float64": 8, "int64": 8}
DECODING_OPS = ("DecodeJpeg", "DecodePng", "DecodeImage", "DecodeBmp", "DecodeGif", "DecodeAndCropJpeg")  # give uint8
MIN_BYTES_SHARE = 0.5  # of a batch: the rest, such as labels and weights, may have any type
MAX_CAST_SHARE = 1.1  # of the copied bytes: if more was cast, it was not the copied data, or not only


class WideInputFinding(Struct, frozen=True):
    """The wide part of a batch, and the ms of a step that its bytes take: to be copied, and to be cut from arrays."""

    part: WidePart
    copy_ms: float
    cut_ms: float
    copied_bytes: float


class WidePart(Struct, frozen=True):
    """``share`` of a batch's bytes cross as ``dtype`` and could cross as ``narrow``."""

    dtype: str
    narrow: str
    share: float
    place: Place | None

    @property
    def saved_share(self) -> float:
        """The share of all bytes that need not cross."""
        return self.share * (1 - BYTES_BY_DTYPE[self.narrow] / BYTES_BY_DTYPE[self.dtype])


class WideInput(Cause[WideInputFinding]):
    """Batches are copied to the device in float32 or float64, though they began as uint8."""

    title = "Input crosses to the device in wide numbers"
    worth_if = "copying a batch takes 5 % of a step or more"
    needs = frozenset({Signal.STEPS, Signal.DEVICE})
    words = ("from_tensor_slices", "uint8", "decode_jpeg", "decode_png")

    def wants(self, trace: Trace) -> frozenset[Signal]:
        known = trace.share(Category.FEED) < MIN_SYMPTOM_SHARE or _wide_part_by_casts(trace) is not None
        known = known or _casts_bytes_on_device(trace) or _wide_part_by_array(trace) is not None
        known = known or _has_element_types(trace.pipeline)
        return super().wants(trace) | (set() if known else {Signal.PIPELINE, Signal.WRITTEN})

    def find(self, trace: Trace) -> WideInputFinding | None:
        by_array = _wide_part_by_array(trace)
        part = _wide_part_by_pipeline(trace.pipeline) or _wide_part_by_casts(trace) or by_array
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


def _wide_part_by_array(trace: Trace) -> WidePart | None:
    """An array given to `fit` in which so few and evenly spaced values were seen that a byte could hold each."""
    device = trace.device
    copied = device.copies.get("h2d") if device is not None else None
    fits = [e for e in trace.events_of("loop") if e.name == "fit" and e.place is not None]
    given = next(((e, e.data["data"]) for e in fits if (e.data.get("data") or {}).get("levels")), None)
    sizes = trace.steps.size[trace.steps.steady]
    if given is None or copied is None or not copied.bytes or not len(sizes):
        return None
    fit, data = given
    bytes_ = prod(data["shape"][1:]) * float(median_value(sizes)) * BYTES_BY_DTYPE[data["dtype"]]
    place = _casting_line(trace, fit.place) or fit.place
    return WidePart(data["dtype"], "uint8", min(bytes_ / copied.bytes, 1.0), place)


def _casting_line(trace: Trace, fit: Place | None) -> Place | None:
    """The last line before `fit` that casts its data."""
    source = recorded_source(trace, fit.file) if fit is not None else None
    if source is None or fit is None:
        return None
    tree = source.tree
    calls = (c for c in ast.walk(tree) if isinstance(c, ast.Call) and c.lineno == fit.line and called_name(c) == "fit")
    name = next(
        (last_name(given) for c in calls for given in (*c.args[:1], *(k.value for k in c.keywords if k.arg == "x"))), ""
    )
    casts = [
        n.lineno for n in ast.walk(tree)
        if isinstance(n, ast.Assign) and n.lineno < fit.line and name in map(last_name, n.targets)
        and any(isinstance(c, ast.Call) and called_name(c) == "astype" for c in ast.walk(n.value))
    ]  # fmt: skip
    return Place(fit.file, max(casts)) if name and casts else None


def _wide_part_by_pipeline(pipe: Pipeline | None) -> WidePart | None:
    """The element types of the last stage, compared with those of the stages before it."""
    stages = [w for w in pipe.written if _element_parts(w)] if pipe is not None else []
    if not stages:
        return None
    bytes_by_dtype: dict[str, float] = {}
    for part in _element_parts(stages[-1]):
        bytes_by_dtype[_dtype_name(part)] = bytes_by_dtype.get(_dtype_name(part), 0.0) + _part_bytes(part)
    total = sum(bytes_by_dtype.values())
    dtype = max(bytes_by_dtype, key=lambda d: bytes_by_dtype[d])
    if total <= 0 or dtype not in ("float32", "float64"):
        return None
    is_cast = (any(_dtype_name(p) == dtype and _part_bytes(p) for p in _element_parts(w)) for w in stages)
    cast = next((w for w, casts in zip(stages, is_cast, strict=True) if casts), stages[-1])
    # Bytes that are still bytes at the end, such as a mask beside the picture, were not cast.
    counts = [sum(_dtype_name(p) == "uint8" for p in _element_parts(w)) for w in stages]
    decoded = any(op in DECODING_OPS for w in stages for op in w.ops)
    narrow = "uint8" if max(counts) > counts[-1] or (decoded and not counts[-1]) else "float32"
    return WidePart(dtype, narrow, bytes_by_dtype[dtype] / total, cast.place) if narrow != dtype else None


def _has_element_types(pipe: Pipeline | None) -> bool:
    """Whether the types of any stage's elements are known."""
    return pipe is not None and any(_dtype_name(p) for w in pipe.written for p in _element_parts(w))


def _element_parts(written: WrittenDataset) -> list[dict[str, Any]]:
    return [p for p in written.detail.get("element") or () if isinstance(p, dict)]


def _dtype_name(part: dict[str, Any]) -> str:
    """NumPy's name of the type; "" if it is unknown."""
    recorded = str(part.get("dtype") or "")
    return device_activity.FORMAT_BY_DTYPE.get(recorded, recorded)


def _part_bytes(part: dict[str, Any]) -> float:
    """Bytes, by the dimensions that are known."""
    return prod(float(d) for d in part.get("shape") or () if d) * BYTES_BY_DTYPE.get(_dtype_name(part), 0)


def _wide_part_by_casts(trace: Trace) -> WidePart | None:
    """Casts on the device of as many wide numbers as were copied to it."""
    device = trace.device
    copied = device.copies.get("h2d") if device is not None else None
    if device is None or copied is None or not copied.bytes:
        return None
    for wide, narrow in (("float64", "float32"), ("int64", "int32")):
        sizes = [
            prod(operand.shape) * BYTES_BY_DTYPE[wide] * op.count
            for op, inputs in tensor_cores.profiled_ops(device) if op.kind == "Cast"
            for operand in inputs if operand.dtype == wide and operand.shape
        ]  # fmt: skip
        share = sum(sizes) / copied.bytes
        if MIN_BYTES_SHARE <= share <= MAX_CAST_SHARE:
            return WidePart(wide, narrow, min(share, 1.0), None)
    return None


def _casts_bytes_on_device(trace: Trace) -> bool:
    """Whether most of the copied bytes are uint8 that the device casts: then they did not cross wide."""
    device = trace.device
    return device is not None and any(
        op.kind == "Cast" and operand.dtype == "uint8"
        and prod(operand.shape) * op.count >= MIN_BYTES_SHARE * copied.bytes
        for copied in [device.copies.get("h2d")] if copied is not None
        for op, inputs in tensor_cores.profiled_ops(device) for operand in inputs
    )  # fmt: skip
