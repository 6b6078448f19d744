"""Random image work for each element on the host, which the model could do for a batch."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from slowtrain.causes import Cause
from slowtrain.columns.input_pipeline import Node, Pipeline
from slowtrain.model import Category, Evidence, Signal
from slowtrain.number_text import format_number
from slowtrain.trace import Trace
from slowtrain.trace.run_division.recording_steps import ELEMENTS_SOURCE
from slowtrain.trace.signals.input_feed import (
    BATCH_CALL_MS,
    READY_ELEMENT_US,
    calls_per_batch,
    profiled_op_ms,
    slow_user_maps,
    user_lines,
    waited_pipeline,
)
from slowtrain.whatif import Remedy, Supply

# Starts of the names of ops of image augmentation.
AUGMENTING_OP_STARTS = (
    "ImageProjectiveTransform", "AdjustContrast", "AdjustHue", "AdjustSaturation", "RGBToHSV", "HSVToRGB",
    "CropAndResize", "ReverseV2", "MirrorPad", "ResizeBilinear", "ResizeBicubic", "ResizeNearest",
    "ResizeArea", "ScaleAndTranslate", "ExtractImagePatches", "DepthwiseConv2dNative", "Conv2D", "Pow",
    "ClipByValue", "Roll", "Pad",
)  # fmt: skip
READING_OP_STARTS = ("Decode", "ReadFile", "Parse")
MAX_READING_SHARE = 0.5  # of the function's profiled time: with more, augmentation is not what takes long
MAX_OPS_SHARE_ON_CPU = 0.5  # of a map's time: on a CPU only the rest, which starts the ops, can be saved
UNPROFILED_OPS_SHARE = 0.3  # assumed share of a map's time that is spent inside its ops, if no profile has it
MIN_OPS = 10  # of an augmenting function: fewer are a flip or a cast
MIN_PICTURE_AXES = 3
MIN_ELEMENT_CALLS = 2.0  # for a batch: with fewer, the map gets whole batches
DEVICE_SPEEDUP = 10.0  # over one core at elementwise work on pictures, assumed: the low end of what is usual


class AugmentingMap(Struct, frozen=True):
    """The map that sets the pace, with its calls for a batch and the number of ops of one call."""

    pipeline: Pipeline
    node: Node
    calls: float
    ops: int

    @property
    def takes_batches(self) -> bool:
        """Whether the map gets whole batches already."""
        return self.calls < MIN_ELEMENT_CALLS


class HostAugmentation(Cause[AugmentingMap]):
    """Random augmentation is done on the host, mostly picture by picture, and the step waits for it."""

    title = "Augmentation on the host holds up the step"
    needs = frozenset({Signal.STEPS, Signal.INPUT, Signal.PIPELINE})
    recorded = frozenset({Signal.WRITTEN})
    symptoms = frozenset({Category.INPUT})
    words = (
        "RandomFlip", "RandomRotation", "RandomZoom", "RandomTranslation", "RandomContrast", "RandomBrightness",
        "RandomCrop", "RandomHeight", "RandomWidth", "RandomShear", "RandomPerspective", "RandomColorJitter",
        "RandomHue", "RandomSaturation", "RandomSharpness", "RandomGaussianBlur", "RandAugment", "AugMix",
    )  # fmt: skip

    def find(self, trace: Trace) -> AugmentingMap | None:
        pipe = waited_pipeline(trace)
        if pipe is None or trace.steps.source == ELEMENTS_SOURCE:
            return None  # nothing trains, so that there is no model to which the work could move
        node = next((n for n in slow_user_maps(pipe) if _augments_pictures(trace, pipe, n)), None)
        if node is None:
            return None
        return AugmentingMap(pipe, node, calls_per_batch(pipe, node), _op_count(node))

    def evidence(self, trace: Trace, finding: AugmentingMap) -> Evidence:
        ms, each_us = finding.node.ms, 1e3 * finding.node.ms / finding.calls
        each = "" if finding.takes_batches else f"{format_number(each_us)} µs an element, "
        return Evidence(
            f"random image work on the host takes {each}{format_number(ms)} ms a batch "
            f"({finding.ops} ops for each {'batch' if finding.takes_batches else 'element'}), "
            f"and the step waits {format_number(trace.mean(Category.INPUT), 2)} ms",
            {"map_ms": ms, "element_us": each_us, "ops": float(finding.ops)},
            user_lines(finding.node),
        )

    def remedies(self, trace: Trace, finding: AugmentingMap) -> Sequence[Remedy]:
        node = finding.node
        left = min(node.ms, BATCH_CALL_MS + finding.calls * 2 * READY_ELEMENT_US / 1e3)
        cured = finding.pipeline.with_nodes(replace(node, ms=left))
        # The step gets longer by the work that moves into it.
        return [Supply(pipeline=cured, added_ms=_moved_ms(trace, node), spread=(0.5, 1.1))]


def _op_count(node: Node) -> int:
    return sum(node.written.ops.values()) if node.written else 0


def _augments_pictures(trace: Trace, pipe: Pipeline, node: Node) -> bool:
    """Whether the map draws at random, works on pictures, and its time is neither reading nor work that a CPU keeps."""
    function = node.written
    if function is None or function.python or not function.random:
        return False
    if calls_per_batch(pipe, node) < MIN_ELEMENT_CALLS and not trace.on_accelerator:
        return False  # a CPU computes the same ops in the model
    if _op_count(node) < MIN_OPS or not any(op.startswith(AUGMENTING_OP_STARTS) for op in function.ops):
        return False
    axes = [len(part.get("shape") or ()) for part in function.detail.get("element") or () if part.get("shape")]
    if axes and max(axes) < MIN_PICTURE_AXES:
        return False
    ops_ms = profiled_op_ms(trace, node)
    if not trace.on_accelerator and (ops_ms or 0.0) > MAX_OPS_SHARE_ON_CPU * node.ms:
        return False
    reading = frozenset(op for op in function.ops if op.startswith(READING_OP_STARTS))
    if not reading:
        return True
    reading_ms = profiled_op_ms(trace, node, reading) or 0.0
    return bool(ops_ms) and reading_ms <= MAX_READING_SHARE * (ops_ms or 0.0)


def _moved_ms(trace: Trace, node: Node) -> float:
    """What the augmentation of a batch adds to the step: the work inside its ops, without the start of each."""
    work = profiled_op_ms(trace, node) or UNPROFILED_OPS_SHARE * node.ms
    return work / (DEVICE_SPEEDUP if trace.on_accelerator else max(trace.cores, 1.0))
