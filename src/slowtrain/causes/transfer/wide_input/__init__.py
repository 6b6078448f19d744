"""Batches cross to the device in wider numbers than they hold."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

from slowtrain.causes import MIN_SYMPTOM_SHARE, Cause
from slowtrain.causes.transfer.wide_input import caststep, doubles, narrowed
from slowtrain.columns.array_statistics import median_value
from slowtrain.columns.input_pipeline import Pipeline, WrittenDataset
from slowtrain.model import Category, Edit, Effect, Evidence, Place, Prescription, Signal
from slowtrain.number_text import format_number
from slowtrain.profile import op_shapes
from slowtrain.script.locations.recorded_sources import recorded_source
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source
from slowtrain.source.cures import measured
from slowtrain.trace import Trace
from slowtrain.trace.signals.device import tensor_cores
from slowtrain.trace.signals.host.source_lines import called_name, last_name
from slowtrain.values import dataclass
from slowtrain.whatif import Drop, Remedy

BYTES = {"uint8": 1, "float16": 2, "bfloat16": 2, "float32": 4, "int32": 4, "float64": 8, "int64": 8}
DECODED = ("DecodeJpeg", "DecodePng", "DecodeImage", "DecodeBmp", "DecodeGif", "DecodeAndCropJpeg")  # give uint8
MOSTLY = 0.5  # of a batch's bytes: labels and weights beside it may be what they are
CUT_MS = 0.15  # of cutting a batch from arrays, whatever its size
IN_MODEL = "hand over uint8 and cast in the model: layers.Rescaling(1 / 255) as its first layer"
IN_STEP = "hand over uint8 and cast in the step: tf.cast(x, tf.float32) / 255 as the first line of its tf.function"
IN_SINGLE, SINGLE = "make the arrays float32 (integers int32) before they are batched", '.astype("float32")'
COPY_MS = 0.02  # of a copy, whatever its size: what remains of it is bytes


@dataclass(frozen=True)
class Wide:
    """``share`` of a batch's bytes cross as ``dtype`` and could as ``narrow``."""

    dtype: str
    narrow: str
    share: float
    place: Place | None

    @property
    def saved(self) -> float:
        """Of all bytes, what need not cross."""
        return self.share * (1 - BYTES[self.narrow] / BYTES[self.dtype])


class WideInput(Cause[Evidence]):
    """Batches are copied to the device in float32 or float64, though they began as uint8."""

    title = "Input crosses to the device in wide numbers"
    needs = frozenset({Signal.STEPS, Signal.DEVICE})
    words = ("from_tensor_slices", "uint8", "decode_jpeg", "decode_png")

    def wants(self, trace: Trace) -> frozenset[Signal]:
        told = trace.share(Category.FEED) < MIN_SYMPTOM_SHARE or _by_casts(trace) is not None or _narrow(trace)
        told = told or _by_array(trace) is not None
        typed = trace.pipeline is not None and any(_dtype(p) for w in trace.pipeline.written for p in _element(w))
        return super().wants(trace) | (set() if told or typed else {Signal.PIPELINE, Signal.WRITTEN})

    def find(self, trace: Trace) -> Evidence | None:
        found = _by_pipeline(trace.pipeline) or _by_casts(trace) or _by_array(trace)
        ms, made = _bytes_ms(trace), _cut_ms(trace)
        ms += made
        if found is None or found.share < MOSTLY or ms <= 0 or trace.device is None:
            return None
        copied = trace.device.copies["h2d"]
        way = "cut from their arrays and on their way" if made > 0 else "on their way"
        return Evidence(
            f"each step waits {format_number(ms)} of {format_number(trace.step_ms)} ms for "
            f"{format_number(copied.bytes / 1e6)} MB {way} to the "
            f"device, {found.share:.0%} of them {found.dtype} that could be {found.narrow}",
            {
                "feed_ms": ms - made,
                "made_ms": made,
                "wide_share": found.share,
                "copied_bytes": copied.bytes,
                "saved_share": found.saved,
            },
            (found.place,) if found.place else (),
        )

    def remedies(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        # The host's part, handing bytes to the driver, shrinks with them as well, but not where it is paid per call.
        saved = evidence.numbers["saved_share"]
        drops = {
            Category.FEED: saved * evidence.numbers["feed_ms"],
            Category.INPUT: saved * evidence.numbers["made_ms"],
        }
        return [Drop(drops, 0.5, (0.6, 1.1))]

    def cures(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        if "uint8" in evidence.says:
            says, made = IN_MODEL, measured.first(trace, evidence.where, narrowed.cast_in_model)
            if not made and trace.steps.source.startswith("function"):
                says, made = IN_STEP, measured.first(trace, evidence.where, caststep.cast_in_step)
        else:
            says, made = IN_SINGLE, measured.first(trace, evidence.where, lambda source, _: _in_single(source))
        yield Prescription("edit", Effect.EQUIVALENT, says, edits=made)


def _doubles(source: Source) -> tuple[ast.expr, ...]:
    return tuple(doubles.arrays(source)) or tuple(doubles.handed(source))


def _in_single(source: Source) -> list[Edit]:
    return [edit for array in _doubles(source) for edit in edits.append_to_chain(source, array, SINGLE)]


def _bytes_ms(trace: Trace) -> float:
    """What of the wait for copies to the device goes with their bytes."""
    copied = trace.device.copies.get("h2d") if trace.device is not None else None
    if copied is None:
        return 0.0
    return max(trace.mean(Category.FEED) - copied.count * COPY_MS, 0.0)


def _cut_ms(trace: Trace) -> float:
    """What cutting a batch out of arrays in the step's own thread takes beyond the call: it goes with the bytes."""
    if trace.pipelines or _by_array(trace) is None:
        return 0.0
    return max(trace.mean(Category.INPUT) - CUT_MS, 0.0)


def _by_array(trace: Trace) -> Wide | None:
    """An array given to `fit` of whose numbers so few, so evenly spaced were met that a byte could hold each."""
    device = trace.device
    copied = device.copies.get("h2d") if device is not None else None
    fits = [e for e in trace.events_of("loop") if e.name == "fit" and e.place is not None]
    given = next(((e, e.data["data"]) for e in fits if (e.data.get("data") or {}).get("levels")), None)
    sizes = trace.steps.size[trace.steps.steady]
    if given is None or copied is None or not copied.bytes or not len(sizes):
        return None
    fit, data = given
    bytes_ = prod(data["shape"][1:]) * float(median_value(sizes)) * BYTES[data["dtype"]]
    return Wide(data["dtype"], "uint8", min(bytes_ / copied.bytes, 1.0), _cast_line(trace, fit.place) or fit.place)


def _cast_line(trace: Trace, fit: Place | None) -> Place | None:
    """The last line before `fit` that casts what it is given."""
    source = recorded_source(trace, fit.file) if fit is not None else None
    if source is None or fit is None:
        return None
    tree = source.tree
    calls = (c for c in ast.walk(tree) if isinstance(c, ast.Call) and c.lineno == fit.line and called_name(c) == "fit")
    name = next(
        (last_name(given) for c in calls for given in (*c.args[:1], *(k.value for k in c.keywords if k.arg == "x"))), ""
    )
    made = [
        n.lineno for n in ast.walk(tree)
        if isinstance(n, ast.Assign) and n.lineno < fit.line and name in map(last_name, n.targets)
        and any(isinstance(c, ast.Call) and called_name(c) == "astype" for c in ast.walk(n.value))
    ]  # fmt: skip
    return Place(fit.file, max(made)) if name and made else None


def _by_pipeline(pipe: Pipeline | None) -> Wide | None:
    """What the last stage hands over, against the types of the stages before it."""
    stages = [w for w in pipe.written if _element(w)] if pipe is not None else []
    if not stages:
        return None
    dtypes: dict[str, float] = {}
    for part in _element(stages[-1]):
        dtypes[_dtype(part)] = dtypes.get(_dtype(part), 0.0) + _size(part)
    total = sum(dtypes.values())
    dtype = max(dtypes, key=lambda d: dtypes[d])
    if total <= 0 or dtype not in ("float32", "float64"):
        return None
    cast = next((w for w in stages if any(_dtype(p) == dtype and _size(p) for p in _element(w))), stages[-1])
    # Bytes that are still bytes at the end (a mask beside the picture) were not cast.
    counts = [sum(_dtype(p) == "uint8" for p in _element(w)) for w in stages]
    decoded = any(op in DECODED for w in stages for op in w.ops)
    narrow = "uint8" if max(counts) > counts[-1] or (decoded and not counts[-1]) else "float32"
    return Wide(dtype, narrow, dtypes[dtype] / total, cast.place) if narrow != dtype else None


def _element(written: WrittenDataset) -> list[dict[str, Any]]:
    return [p for p in written.detail.get("element") or () if isinstance(p, dict)]


def _dtype(part: dict[str, Any]) -> str:
    """NumPy's name, "" where it is not told."""
    said = str(part.get("dtype") or "")
    return op_shapes.FORMAT_BY_DTYPE.get(said, said)


def _size(part: dict[str, Any]) -> float:
    """Bytes, by the dimensions that are known."""
    return prod(float(d) for d in part.get("shape") or () if d) * BYTES.get(_dtype(part), 0)


def _by_casts(trace: Trace) -> Wide | None:
    """Casts on the device of as many wide numbers as were copied to it."""
    device = trace.device
    copied = device.copies.get("h2d") if device is not None else None
    if device is None or copied is None or not copied.bytes:
        return None
    for wide, narrow in (("float64", "float32"), ("int64", "int32")):
        sizes = [
            prod(operand.shape) * BYTES[wide] * op.count
            for op, inputs in tensor_cores.profiled_ops(device) if op.kind == "Cast"
            for operand in inputs if operand.dtype == wide and operand.shape
        ]  # fmt: skip
        share = sum(sizes) / copied.bytes
        if MOSTLY <= share <= 1.1:  # more: it was not the copied data, or not only
            return Wide(wide, narrow, min(share, 1.0), None)
    return None


def _narrow(trace: Trace) -> bool:
    """Whether bytes are cast on the device: then they crossed as such."""
    device = trace.device
    return device is not None and any(
        op.kind == "Cast" and operand.dtype == "uint8" and prod(operand.shape) * op.count >= MOSTLY * copied.bytes
        for copied in [device.copies.get("h2d")] if copied is not None
        for op, inputs in tensor_cores.profiled_ops(device) for operand in inputs
    )  # fmt: skip
