"""Ways to make a request smaller, if that helps: a smaller batch, a smaller model, lower precision."""

from __future__ import annotations

import math
from collections.abc import Iterator

from slowtrain.model.exhaustion import Advice, Dump, FailureOutcome, PoolKind, Purpose
from slowtrain.oom.judgement import failure_outcome, memory_questions
from slowtrain.oom.text import tensor_purpose
from slowtrain.oom.text.size_words import format_size

FLOAT32_NAMES = ("float", "float32")
BATCH_INDEPENDENT = (Purpose.UPDATE, Purpose.VARIABLE)  # these do not depend on the batch
MAX_MATRIX_AXES = 2  # weights of dense layers and embedding tables have at most two; kernels of convolutions are small
# If a request is this many times too large, the batch is not the reason: a batch of 256 cannot be replaced by one of
# 31.
MAX_BATCH_PARTS = 8


def smaller_request_advice(dump: Dump, outcome: FailureOutcome) -> Iterator[Advice]:
    """For a smaller batch, which makes this tensor smaller if the batch is its first axis."""
    request, needed, what = dump.request, dump.request.needed, tensor_purpose.request_purpose(dump.request)
    if what in BATCH_INDEPENDENT:
        yield from _smaller_model_advice(dump, what)
        return
    if needed is None:
        return
    if memory_questions.is_small_request(dump):
        yield from _memory_in_use_advice(dump)
        return
    parts = _required_parts(dump, outcome, needed)
    if parts > MAX_BATCH_PARTS or _exceeds_any_card(dump, outcome):
        yield from _other_shape_advice(dump, needed)
        return
    if what is Purpose.UNKNOWN:
        yield from _uncertain_size_advice(dump, needed, parts)
        return
    free = dump.largest_free_bytes
    enough = True if free is not None and needed / parts <= free else None
    alike = sum(h.bytes for h in dump.by_size if h.each_bytes and abs(h.each_bytes - needed) <= 256)
    gain = (needed + alike) - (needed + alike) // parts
    first = f", {request.shape[0]} here" if request.shape else ""
    also = f", with {format_size(alike)} in pieces of the same size" if alike else ""
    yield Advice(
        f"{divide_batch_phrase(parts)}: if it is the first axis{first}, this tensor needs {share_phrase(parts)}{also}",
        gain,
        enough,
    )
    if request.dtype in FLOAT32_NAMES and dump.pool is PoolKind.DEVICE and parts <= 2:
        yield Advice("mixed_float16 halves this tensor and every activation like it", (needed + alike) // 2, enough)
    if outcome is FailureOutcome.TOO_LARGE:
        yield Advice("compute it in parts: no allocator setting allows a piece larger than the pool")


def _required_parts(dump: Dump, outcome: FailureOutcome, needed: int) -> int:
    """The smallest number of parts that the request must be divided into; 2 if nothing shows that this is too few."""
    room = dump.largest_free_bytes
    if outcome is FailureOutcome.TOO_LARGE:
        room = dump.limit_bytes or dump.device_bytes or memory_questions.LARGEST_CARD_BYTES
    elif outcome is FailureOutcome.FULL:
        room = (failure_outcome.free_bytes(dump) or 0) + failure_outcome.room_bytes(dump)
        if dump.by_size or dump.by_op:
            # The log does not say which pieces in use a smaller batch would free. Only this tensor's share is known.
            room = max(room, needed // MAX_BATCH_PARTS)
    return max(2, math.ceil(needed / room)) if room else 2


def _exceeds_any_card(dump: Dump, outcome: FailureOutcome) -> bool:
    """Whether the request exceeds every device while this device's memory is unknown."""
    return outcome is FailureOutcome.TOO_LARGE and dump.limit_bytes is None and dump.device_bytes is None


def divide_batch_phrase(parts: int) -> str:
    return "halve the batch" if parts == 2 else f"divide the batch by {parts}"


def share_phrase(parts: int) -> str:
    return {2: "half", 3: "a third"}.get(parts, f"a {parts}th")


def _memory_in_use_advice(dump: Dump) -> Iterator[Advice]:
    whole = dump.limit_bytes or dump.device_bytes
    part = f", {(dump.request.needed or 0) / whole:.1%} of the pool" if whole else ""
    largest = next((h for h in (*dump.by_op, *dump.by_size)), None)
    most = ""
    if largest is not None:
        pieces = "one piece" if largest.count == 1 else f"{largest.count:,} pieces"
        most = f"; most of it is {largest.name or f'{pieces} of {format_size(largest.each_bytes)}'}"
    yield Advice(f"this request is small{part}: the memory in use matters, not this last piece{most}")
    if "PyTorch" in dump.allocator:
        yield Advice("torch.cuda.memory_summary() shows what holds it; activations shrink with the batch, weights and "
                     "the optimizer's state do not")  # fmt: skip
        return
    yield Advice(
        "activations shrink with the batch, weights and the optimizer's state do not: slowtrain memory with "
        "the script measures both, and the largest batch that fits"
    )


def _other_shape_advice(dump: Dump, needed: int) -> Iterator[Advice]:
    room = dump.limit_bytes or dump.device_bytes
    times = f"{needed / room:.0f} times the pool" if room and needed > room else "far more than the memory"
    shape = f": look at which axis of {list(dump.request.shape)} is larger than intended" if dump.request.shape else ""
    yield Advice(
        f"it is {times}, too much for a smaller batch to help{shape} (all pairs of rows, a one-hot of a large "
        "vocabulary, a whole data set in one call)"
    )
    yield Advice(
        "compute it in parts (a loop over slices, predict with a batch_size): each part is freed before the next"
    )


def _smaller_model_advice(dump: Dump, what: Purpose) -> Iterator[Advice]:
    """For a variable or its update, which is as large as the variable for any batch."""
    made = "it is a new variable" if what is Purpose.VARIABLE else "it belongs to a variable's update"
    later = ", once the model is built" if what is Purpose.VARIABLE else ""
    yield Advice(
        f"a smaller model (fewer units, smaller tables): {made}, whose size does not depend on the batch"
        + (" (except sparse gradients of an embedding)" if what is Purpose.UPDATE else "")
    )
    yield Advice(
        f"an optimizer with less state: Adam keeps two values for each weight{later}, SGD with momentum one, plain SGD "
        "none"
    )
    if dump.request.dtype in ("", *FLOAT32_NAMES):
        yield Advice(
            "weights in lower precision: the dtype policy bfloat16 halves them (mixed_float16 keeps them in 32 bits)"
        )


def _uncertain_size_advice(dump: Dump, needed: int, parts: int) -> Iterator[Advice]:
    """For a tensor that depends on the batch or on a weight."""
    request = dump.request
    if request.shape and len(request.shape) <= MAX_MATRIX_AXES:
        yield Advice("if it is a weight or a table: use fewer units or rows; bfloat16 halves it")
    first = f" and its first axis, {request.shape[0]} here, is the batch" if request.shape else ""
    yield Advice(
        f"if it is computed from a batch{first}: {divide_batch_phrase(parts)}, and it needs {share_phrase(parts)}. "
        "A weight, its gradient and optimizer state keep their size; the log does not show which of these it is",
        needed - needed // parts,
    )
    if request.dtype in FLOAT32_NAMES and dump.pool is PoolKind.DEVICE and parts <= 2:
        yield Advice("mixed_float16, which halves activations but not weights", needed // 2)
