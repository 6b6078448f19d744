"""Advice on memory: smaller requests, and more memory, with the bytes that each gives if these are known."""

from __future__ import annotations

import math
from collections.abc import Iterator

from slowtrain.oom import device_messages, failure_outcome, host_messages, log_text, memory_questions
from slowtrain.oom.device_messages import SPARSE_CORE_PART
from slowtrain.oom.log_text import format_size
from slowtrain.shared.exhaustion import Advice, Dump, FailureKind, FailureOutcome, HeldBy, PoolKind, Purpose

FLOAT32_NAMES = ("float", "float32")
BATCH_INDEPENDENT = (Purpose.UPDATE, Purpose.VARIABLE)  # these do not depend on the batch
MAX_MATRIX_AXES = 2  # weights of dense layers and embedding tables have at most two; kernels of convolutions are small
# If a request is this many times too large, the batch is not the reason: a batch of 256 cannot be replaced by one of
# 31.
MAX_BATCH_PARTS = 8


def smaller_request_advice(dump: Dump, outcome: FailureOutcome) -> Iterator[Advice]:
    """For a smaller batch, which makes this tensor smaller if the batch is its first axis."""
    request, needed, what = dump.request, dump.request.needed_bytes, log_text.request_purpose(dump.request)
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
    part = f", {(dump.request.needed_bytes or 0) / whole:.1%} of the pool" if whole else ""
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
    reason = "it is a new variable" if what is Purpose.VARIABLE else "it belongs to a variable's update"
    later = ", once the model is built" if what is Purpose.VARIABLE else ""
    yield Advice(
        f"a smaller model (fewer units, smaller tables): {reason}, whose size does not depend on the batch"
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


MIN_PADDING_FACTOR = 2.0  # times: from here on the layout, not the values, fills the device


def array_advice(dump: Dump) -> Iterator[Advice]:
    """For an array that is put on the device as a whole."""
    if dump.jax:
        yield Advice("keep the array on the host (NumPy), and pass the jitted step one batch of it at a time")
        yield Advice(
            "an array that a jitted function uses without taking it as an argument becomes a constant of the "
            "program: pass it as an argument"
        )
        return
    yield Advice(
        "keep the array on the host and feed it by tf.data: from_tensor_slices under tf.device('/CPU:0'), then batch; "
        "or a keras.utils.PyDataset that returns one batch of the array. The batch size does not matter here"
    )
    yield Advice(
        "if the array does not fit into the host's memory a second time: numpy.load(..., mmap_mode='r') with "
        "Dataset.from_generator, or TFRecord files"
    )


def kill_advice(dump: Dump) -> Iterator[Advice]:
    if dump.who == host_messages.SHARED_MEMORY:
        yield Advice(
            "give the container more shared memory: docker run --shm-size=8g, or --ipc=host; fewer workers need less"
        )
        return
    if not dump.sure and not dump.refused_bytes:
        yield Advice(
            "check whether memory was the reason: dmesg -T | grep -i 'killed process', or the container's last state"
        )
    yield Advice(
        "keep less data in the host's memory at once: read it batch by batch, use smaller shuffle buffers and fewer "
        "workers, and do not cache() what does not fit"
    )
    limit = {"Slurm's limit": "--mem of the job", "the container's limit": "the container's memory limit"}.get(dump.who)
    if limit is not None:
        yield Advice(f"if the machine has more: raise {limit}")
    yield Advice("find what grows: slowtrain run with the script shows the process's memory and the line where it grew")


def host_advice(dump: Dump) -> Iterator[Advice]:
    yield Advice(
        "do not keep all of it in memory: use numpy.memmap or numpy.load(..., mmap_mode='r'), or a tf.data pipeline "
        "that reads and decodes one batch at a time"
    )
    if dump.request.dtype in ("float64", "float32"):
        yield Advice(
            f"{dump.request.dtype} is wider than inputs need: use uint8 or float16 until the batch is on the device"
        )
    yield Advice("use a machine, a container or a job with more memory")


def library_advice(dump: Dump) -> Iterator[Advice]:
    if dump.other_reason:
        yield Advice("install matching versions: pip install 'tensorflow[and-cuda]', or 'jax[cuda12]'; "
                     "slowtrain doctor lists what is installed")  # fmt: skip
        return
    yield Advice("stop the other processes on this card (nvidia-smi lists them), such as an old notebook kernel")
    if dump.who == host_messages.CONTEXT_OF_CUDA:
        yield Advice(
            "if those are yours, let each take only what it needs: set_memory_growth, or a LogicalDevice with a "
            "memory_limit, in the one that started first"
        )
    elif "PyTorch" in dump.allocator:
        yield Advice(
            "leave room outside PyTorch's pool: torch.cuda.set_per_process_memory_fraction(0.9), or keep less "
            "memory when the library is first used"
        )
        yield Advice("an index out of range on the GPU can cause the same error: CUDA_LAUNCH_BLOCKING=1 shows it")
    elif dump.jax:
        yield Advice("leave more of the card outside of JAX's pool: XLA_PYTHON_CLIENT_MEM_FRACTION=0.7, or "
                     "XLA_PYTHON_CLIENT_PREALLOCATE=false")  # fmt: skip
    else:
        yield Advice(
            "let the pool grow instead of taking everything at once, so that the library finds room: "
            "tf.config.experimental.set_memory_growth (TensorFlow 1: gpu_options.allow_growth=True)"
        )
    if not dump.sure:
        yield Advice(
            "if that changes nothing, check the versions of driver, CUDA and cuDNN: slowtrain doctor lists them"
        )


def pinned_advice(dump: Dump) -> Iterator[Advice]:
    yield Advice("it is host memory, not GPU memory: a smaller batch or model on the GPU does not help by itself")
    yield Advice(
        "buffer fewer or smaller batches: use a smaller prefetch, and uint8 instead of float32 until the batch is "
        "on the device"
    )
    limit = f" above {format_size(dump.limit_bytes)}" if dump.limit_bytes else ""
    setting = "XLA_PJRT_GPU_HOST_MEMORY_LIMIT_GB" if "xla" in dump.allocator.lower() else "TF_GPU_HOST_MEM_LIMIT_IN_MB"
    yield Advice(f"let the pool grow{limit} if the machine has the memory: {setting}")


def taken_advice(dump: Dump) -> Iterator[Advice]:
    if dump.pool is not PoolKind.DEVICE:
        yield Advice("the machine or its container has no memory left: give it more, or stop what uses it")
        return
    needed = dump.request.needed_bytes or 0
    asked = memory_questions.answer_questions(dump, FailureOutcome.TAKEN)
    gain = asked.held_bytes
    enough = None if gain is None else gain + (dump.free_bytes or 0) >= needed
    yield Advice("stop the other processes on this card (nvidia-smi lists them), or use another card", gain, enough)
    if asked.held_by is HeldBy.LIMIT:
        yield Advice("if a limit is set, raise it: memory_limit of a LogicalDevice, per_process_gpu_memory_fraction")
    if "PyTorch" in dump.allocator:
        yield Advice(
            "if both are yours, give each a share: torch.cuda.set_per_process_memory_fraction; TensorFlow and JAX "
            "take the card unless set_memory_growth or XLA_PYTHON_CLIENT_PREALLOCATE=false is set"
        )
        return
    yield Advice("if both are yours, give each a share: set_memory_growth, or a LogicalDevice with a memory_limit")


def small_pool_advice() -> Iterator[Advice]:
    """For a pool that is smaller than any card."""
    yield Advice(
        "give the pool the whole card: stop the other processes on it (nvidia-smi lists them), and raise "
        "memory_limit or per_process_gpu_memory_fraction if one is set"
    )


def held_advice(dump: Dump) -> Iterator[Advice]:
    """For a refusal that the request's size does not explain."""
    yield Advice(
        "check who holds the card before the run: nvidia-smi; stop what is left of earlier runs (such as an old "
        "notebook kernel)"
    )
    if dump.jax:
        yield Advice(
            "if this process holds it: jax.live_arrays() lists the arrays that are kept; donate_argnums gives the "
            "old state's memory to the new one"
        )
        yield Advice(
            "if JAX's own arrays fill its pool, which is 75% of the card by default: "
            "XLA_PYTHON_CLIENT_MEM_FRACTION=0.95"
        )
        yield Advice("if another framework in this process holds it: tf.config.set_visible_devices([], 'GPU') keeps "
                     "TensorFlow off the card")  # fmt: skip
        yield Advice("for the allocator's dump, which JAX leaves out by default, run it with TF_CPP_MIN_LOG_LEVEL=0")
    elif "PyTorch" not in dump.allocator:
        yield Advice("if this process holds it: run it without TF_CPP_MIN_LOG_LEVEL, and the dump shows what holds it")
    else:
        yield Advice("if this process holds it: torch.cuda.memory_summary() shows what holds it")


def other_framework_advice(dump: Dump) -> Iterator[Advice]:
    if dump.allocator == device_messages.MPS_ALLOCATOR:
        yield Advice(
            "Metal holds the rest in this process, for its graphs and their temporaries: compute in parts, and call "
            "torch.mps.empty_cache() between them",
            dump.outside_bytes,
        )
        return
    yield Advice(
        "another framework in this process holds it: tf.config.set_visible_devices([], 'GPU') keeps TensorFlow off the "
        "card, XLA_PYTHON_CLIENT_PREALLOCATE=false keeps JAX from taking three quarters",
        dump.outside_bytes,
    )


def fragmentation_advice(dump: Dump) -> Iterator[Advice]:
    usable = dump.free_bytes
    if dump.pool is PoolKind.DEVICE and "PyTorch" in dump.allocator:
        yield Advice("set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, which joins free pieces")
    elif dump.pool is PoolKind.DEVICE and dump.driver_free_bytes is None:
        yield Advice("set TF_GPU_ALLOCATOR=cuda_malloc_async, which joins free pieces", usable,
                     usable is not None and usable >= (dump.request.needed_bytes or 0))  # fmt: skip
    if (dump.regions or 0) > 1:
        yield Advice(
            f"the pool grew in {dump.regions} regions, which are never joined: "
            + (
                "leave set_memory_growth off, so that there is one region"
                if dump.pool is PoolKind.DEVICE
                else "allocate large tensors first"
            )
        )
    yield Advice("keep shapes constant from step to step (padding, drop_remainder=True): freed pieces then fit again")


def more_memory_advice(dump: Dump, outcome: FailureOutcome) -> Iterator[Advice]:
    """For more memory. The shortage is known for this one request only, not for requests that would have followed."""
    what = log_text.request_purpose(dump.request)
    short = failure_outcome.missing_bytes(dump) if outcome is FailureOutcome.FULL else None
    alone = " for this tensor alone; later requests are not in this log" if short else ""
    if short and what is Purpose.VARIABLE:
        alone += (
            ": the rest of the model, the optimizer's state and the first step need memory too (slowtrain memory "
            "measures them)"
        )
    if dump.pool is PoolKind.HOST and dump.limit_bytes:
        by = f" by {format_size(short)} or more" if short else ""
        yield Advice(f"raise the limit of the host's pool (TF_CPU_BFC_MEM_LIMIT_IN_MB){by}{alone}")
    elif dump.pool is PoolKind.DEVICE and what in BATCH_INDEPENDENT:
        more = f": {format_size(short)} or more" if short else ""
        yield Advice(f"use a card with more memory, or a larger memory_limit if one is set{more}{alone}")


def tpu_advice(dump: Dump, outcome: FailureOutcome) -> Iterator[Advice]:
    """For a program or a runtime buffer that does not fit a TPU's memory."""
    space = dump.allocator.removeprefix("TPU").strip()
    if space and space != "hbm":
        yield Advice(
            f"{space} is the core's own small memory, and one kernel needs more of it: use smaller blocks in that "
            "kernel (Pallas) or a newer compiler before you change the batch"
        )
        return
    padded = next((h for h in dump.by_op if (h.expansion or 1) >= MIN_PADDING_FACTOR), None)
    if padded is not None:
        where = f" at {padded.place}" if padded.place is not None else ""
        yield Advice(
            f"the layout makes {padded.name}{where} {padded.expansion:g} times as large as its values: a TPU pads "
            "the last axis to 128 and the one before it to 8, so put large axes there"
        )
    if dump.kind is not FailureKind.PROGRAM:
        if outcome is FailureOutcome.FRAGMENTED:
            yield Advice("load large programs first, and free arrays before the next program is loaded")
        yield Advice(
            "free what this process still holds on the device: jax.live_arrays() lists it; donate_argnums gives the "
            "old state's memory to the new one"
        )
        return
    needed, limit = dump.request.needed_bytes or 0, dump.limit_bytes or 1
    arguments = next((h.bytes for h in dump.by_part if h.name == "the program's arguments"), 0)
    if next((h.bytes for h in dump.by_part if h.name == SPARSE_CORE_PART), 0) > needed / 2:
        yield Advice(
            "the SparseCore uses most of it: spread the embedding tables over more chips, or use fewer rows or "
            "shorter vectors; the batch does not change them"
        )
        return
    yield Advice(
        "recompute activations instead of keeping them: jax.checkpoint around blocks of the model "
        "(keras.RematScope, tf.recompute_grad)"
    )
    if arguments < limit and needed > arguments:
        fits = (limit - arguments) / (needed - arguments)
        most = f"{math.floor(fits * 100)}%" if fits > 1 / 2 else share_phrase(math.ceil(1 / fits))
        yield Advice(f"if the temporaries grow with the batch, at most {most} of it fits on each core")
    yield Advice("bfloat16 halves activations that are float32")
    yield Advice("spread weights and the optimizer's state over more chips (jax.sharding, keras.distribution)")
