"""Random image work for each element on the host, that the model could do for a batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from slowtrain.causes import Cause
from slowtrain.columns.input_pipeline import Node
from slowtrain.model import Category, Effect, Evidence, Prescription, Signal
from slowtrain.number_text import format_number
from slowtrain.source.cures import input_edits
from slowtrain.source.spots.input import augmenting
from slowtrain.trace import Trace
from slowtrain.trace.run_division.recording_steps import ELEMENTS_SOURCE
from slowtrain.trace.signals.input.input_feed import (
    BATCH_CALL_MS,
    READY_ELEMENT_US,
    calls_per_batch,
    profiled_op_ms,
    slow_user_maps,
    user_lines,
    waited_pipeline,
)
from slowtrain.whatif import Remedy, Supply

# Ops of image augmentation, by the start of their names.
IMAGE = (
    "ImageProjectiveTransform", "AdjustContrast", "AdjustHue", "AdjustSaturation", "RGBToHSV", "HSVToRGB",
    "CropAndResize", "ReverseV2", "MirrorPad", "ResizeBilinear", "ResizeBicubic", "ResizeNearest",
    "ResizeArea", "ScaleAndTranslate", "ExtractImagePatches", "DepthwiseConv2dNative", "Conv2D", "Pow",
    "ClipByValue", "Roll", "Pad",
)  # fmt: skip
OTHER = ("Decode", "ReadFile", "Parse")
MOST_OTHER = 0.5  # of the function's profiled time in reading and decoding: then augmentation is not what takes long
MOST_WORK = 0.5  # of a map's time inside its ops: on a CPU only the rest, the price of starting them, can be saved
LEAST_OPS = 10  # of an augmenting function: fewer are a flip or a cast
DEVICE_FASTER = 10.0  # than one core at elementwise work on pictures, assumed: the low end of what is usual


class HostAugmentation(Cause[Evidence]):
    """Random augmentation is done picture by picture on the host, and the step waits for it."""

    title = "Augmentation on the host holds up the step"
    needs = frozenset({Signal.STEPS, Signal.INPUT, Signal.PIPELINE})
    recorded = frozenset({Signal.WRITTEN})
    symptoms = frozenset({Category.INPUT})
    words = augmenting.LAYERS

    def find(self, trace: Trace) -> Evidence | None:
        node = _augmenting(trace)
        if node is None or trace.pipeline is None or trace.steps.source == ELEMENTS_SOURCE:
            return None  # nothing trains, so that there is no model to move the work to
        count = calls_per_batch(trace.pipeline, node)
        ops = sum(node.written.ops.values()) if node.written else 0
        return Evidence(
            f"random image work takes {format_number(1e3 * node.ms / count)} µs an element on the host, "
            f"{format_number(node.ms)} ms a batch "
            f"({ops} ops for each element), and the step waits {format_number(trace.mean(Category.INPUT), 2)} ms",
            {"map_ms": node.ms, "element_us": 1e3 * node.ms / count, "ops": float(ops)},
            user_lines(node),
        )

    def remedies(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        node, pipe = _augmenting(trace), trace.pipeline
        if node is None or pipe is None:
            return []
        left = min(node.ms, BATCH_CALL_MS + calls_per_batch(pipe, node) * 2 * READY_ELEMENT_US / 1e3)
        # What moves into the step makes it longer by that much.
        return [
            Supply(pipeline=pipe.changed(replace(node, ms=left)), added_ms=_moved_ms(trace, node), spread=(0.5, 1.1))
        ]

    def cures(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        made = input_edits.batch_before_map(trace, _augmenting(trace), evidence.where[:1])
        yield Prescription("edit", Effect.EQUIVALENT, "move the augmentation layers to the front of the model")
        yield Prescription("edit", Effect.EQUIVALENT, "or augment whole batches: .batch(n) before this map", edits=made)


def _augmenting(trace: Trace) -> Node | None:
    pipe = waited_pipeline(trace)
    if pipe is None:
        return None
    for node in slow_user_maps(pipe):
        function = node.written
        if function is None or function.python or not function.random or calls_per_batch(pipe, node) < 2:
            continue
        if sum(function.ops.values()) < LEAST_OPS or not any(op.startswith(IMAGE) for op in function.ops):
            continue
        ranks = [len(part.get("shape") or ()) for part in function.detail.get("element") or () if part.get("shape")]
        if ranks and max(ranks) < 3:
            continue  # no pictures
        decodes = any(op.startswith(OTHER) for op in function.ops)
        inside = profiled_op_ms(trace, node)
        other = profiled_op_ms(trace, node, frozenset(op for op in function.ops if op.startswith(OTHER)))
        if not trace.on_accelerator and (inside or 0.0) > MOST_WORK * node.ms:
            continue  # on a CPU the work stays where it goes
        if decodes and (not inside or (other or 0.0) > MOST_OTHER * inside):
            continue
        return node
    return None


def _moved_ms(trace: Trace, node: Node) -> float:
    """What the augmentation of a batch adds to the step: the work inside its ops, without their starting one by one."""
    inside = profiled_op_ms(trace, node)
    work = inside or 0.3 * node.ms
    return work / (DEVICE_FASTER if trace.on_accelerator else max(trace.cores, 1.0))
