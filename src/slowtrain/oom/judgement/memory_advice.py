"""Advice on memory, except smaller requests (``smaller_request``) and JAX's settings (``jax_advice``)."""

from __future__ import annotations

import math
from collections.abc import Iterator

from slowtrain.model.answers.exhaustion import Advice, Dump, FailureKind, FailureOutcome, HeldBy, PoolKind, Purpose
from slowtrain.oom.judgement import failure_outcome, memory_questions
from slowtrain.oom.judgement.smaller_request import BATCH_INDEPENDENT, share_phrase
from slowtrain.oom.messages import host_memory, library_failures, torch_errors
from slowtrain.oom.messages.tpu_errors import SPARSE_CORE_PART
from slowtrain.oom.text import tensor_purpose
from slowtrain.oom.text.size_words import format_size

MIN_PADDING_FACTOR = 2.0  # times: from here on the layout, not the values, fills the device


def array_advice(dump: Dump) -> Iterator[Advice]:
    """For an array that is put on the device as a whole."""
    if dump.jax:
        yield Advice("keep the array on the host (NumPy), and give the jitted step one batch of it at a time")
        yield Advice(
            "an array that a jitted function takes from outside its arguments becomes a constant of the program: pass "
            "it as an argument"
        )
        return
    yield Advice(
        "keep the array on the host and feed it by tf.data: from_tensor_slices under tf.device('/CPU:0'), then batch; "
        "or a keras.utils.PyDataset that returns one batch of the array. The size of the batch does not matter here"
    )
    yield Advice(
        "an array that does not fit into the host's memory beside that: numpy.load(..., mmap_mode='r') with "
        "Dataset.from_generator, or TFRecord files"
    )


def kill_advice(dump: Dump) -> Iterator[Advice]:
    if dump.who == host_memory.SHARED_MEMORY:
        yield Advice("give the container more of it: docker run --shm-size=8g, or --ipc=host; fewer workers need less")
        return
    if not dump.sure and not dump.refused_bytes:
        yield Advice("see whether it was memory: dmesg -T | grep -i 'killed process', or the container's last state")
    yield Advice("hold less of the data in the host's memory at once: read it batch by batch, smaller shuffle buffers, "
                 "no cache() of what does not fit, fewer workers")  # fmt: skip
    limit = {"Slurm's limit": "--mem of the job", "the container's limit": "the container's memory limit"}.get(dump.who)
    if limit is not None:
        yield Advice(f"where the machine has more: raise {limit}")
    yield Advice("see what grows: slowtrain run with the script shows the process's memory and the line where it grew")


def host_advice(dump: Dump) -> Iterator[Advice]:
    yield Advice(
        "do not hold it whole: numpy.memmap or numpy.load(..., mmap_mode='r'), or a tf.data pipeline that reads and "
        "decodes one batch at a time"
    )
    if dump.request.dtype in ("float64", "float32"):
        yield Advice(f"{dump.request.dtype} is wide for inputs: uint8 or float16 until the batch is on the device")
    yield Advice("a machine, a container or a job with more memory")


def library_advice(dump: Dump) -> Iterator[Advice]:
    if dump.other_reason:
        yield Advice("install the versions that belong together: pip install 'tensorflow[and-cuda]', or 'jax[cuda12]'; "
                     "slowtrain doctor lists what is installed")  # fmt: skip
        return
    yield Advice("end the other processes on this card (nvidia-smi lists them; an old kernel of a notebook counts)")
    if dump.who == library_failures.CONTEXT_OF_CUDA:
        yield Advice("where those are yours, let each take what it needs: set_memory_growth, or a LogicalDevice with a "
                     "memory_limit, in the one that began first")  # fmt: skip
    elif "PyTorch" in dump.allocator:
        yield Advice("leave room beside PyTorch's pool: torch.cuda.set_per_process_memory_fraction(0.9), or less kept "
                     "when the library is first used")  # fmt: skip
        yield Advice("an index out of range on the GPU can give the same error: CUDA_LAUNCH_BLOCKING=1 tells")
    elif dump.jax:
        yield Advice("leave more of the card outside of JAX's pool: XLA_PYTHON_CLIENT_MEM_FRACTION=0.7, or "
                     "XLA_PYTHON_CLIENT_PREALLOCATE=false")  # fmt: skip
    else:
        yield Advice(
            "let the pool grow instead of taking all at once, so that the library finds room: "
            "tf.config.experimental.set_memory_growth (TensorFlow 1: gpu_options.allow_growth=True)"
        )
    if not dump.sure:
        yield Advice("where that changes nothing, the versions of driver, CUDA and cuDNN: slowtrain doctor lists them")


def pinned_advice(dump: Dump) -> Iterator[Advice]:
    yield Advice("it is host memory, not the GPU's: a smaller batch or model on the GPU is no cure by itself")
    yield Advice("buffer fewer or smaller batches: less prefetch, uint8 instead of float32 up to the device")
    limit = f" above {format_size(dump.limit_bytes)}" if dump.limit_bytes else ""
    setting = "XLA_PJRT_GPU_HOST_MEMORY_LIMIT_GB" if "xla" in dump.allocator.lower() else "TF_GPU_HOST_MEM_LIMIT_IN_MB"
    yield Advice(f"let the pool grow{limit} where the machine has the memory: {setting}")


def taken_advice(dump: Dump) -> Iterator[Advice]:
    if dump.pool is not PoolKind.DEVICE:
        yield Advice("the machine or its container has no memory left: give it more, or end what holds it")
        return
    needed = dump.request.needed or 0
    asked = memory_questions.answer_questions(dump, FailureOutcome.TAKEN)
    gain = asked.held_bytes
    enough = None if gain is None else gain + (dump.free_bytes or 0) >= needed
    yield Advice("end the other processes on this card (nvidia-smi lists them), or use another card", gain, enough)
    if asked.held_by is HeldBy.LIMIT:
        yield Advice("where a limit is set, raise it: memory_limit of a LogicalDevice, per_process_gpu_memory_fraction")
    if "PyTorch" in dump.allocator:
        yield Advice(
            "where both are yours, give each a share: torch.cuda.set_per_process_memory_fraction; TensorFlow or JAX "
            "beside it take the card unless set_memory_growth or XLA_PYTHON_CLIENT_PREALLOCATE=false is set"
        )
        return
    yield Advice("where both are yours, give each a share: set_memory_growth, or a LogicalDevice with a memory_limit")


def small_pool_advice() -> Iterator[Advice]:
    """For a pool that is smaller than any card."""
    yield Advice(
        "let the pool have the whole card: end the other processes on it (nvidia-smi lists them), raise memory_limit "
        "or per_process_gpu_memory_fraction where one is set"
    )


def held_advice(dump: Dump) -> Iterator[Advice]:
    """For a refusal that the request's size does not explain."""
    yield Advice(
        "see who holds the card before the run: nvidia-smi; end what is left of earlier runs (an old kernel of a "
        "notebook counts)"
    )
    if dump.jax:
        yield Advice(
            "where this process holds it: jax.live_arrays() lists the arrays that are kept; donate_argnums gives the "
            "old state's memory to the new"
        )
        yield Advice(
            "where JAX's own arrays fill its pool, which is 75% of the card by default: "
            "XLA_PYTHON_CLIENT_MEM_FRACTION=0.95"
        )
        yield Advice("where another framework of this process holds it: tf.config.set_visible_devices([], 'GPU') keeps "
                     "TensorFlow off the card")  # fmt: skip
        yield Advice("for the allocator's dump, which JAX leaves out by default, run it with TF_CPP_MIN_LOG_LEVEL=0")
    elif "PyTorch" not in dump.allocator:
        yield Advice("where this process holds it: run it without TF_CPP_MIN_LOG_LEVEL; the dump shows what")
    else:
        yield Advice("where this process holds it: torch.cuda.memory_summary() shows what")


def other_framework_advice(dump: Dump) -> Iterator[Advice]:
    if dump.allocator == torch_errors.MPS_ALLOCATOR:
        yield Advice("the rest is Metal's, of this process: its graphs and their temporaries; compute in parts, and "
                     "torch.mps.empty_cache() between them", dump.outside_bytes)  # fmt: skip
        return
    yield Advice(
        "another framework of this process holds it: tf.config.set_visible_devices([], 'GPU') keeps TensorFlow off the "
        "card, XLA_PYTHON_CLIENT_PREALLOCATE=false keeps JAX from taking three quarters",
        dump.outside_bytes,
    )


def fragmentation_advice(dump: Dump) -> Iterator[Advice]:
    usable = dump.free_bytes
    if dump.pool is PoolKind.DEVICE and "PyTorch" in dump.allocator:
        yield Advice("set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, which joins free pieces")
    elif dump.pool is PoolKind.DEVICE and dump.driver_free_bytes is None:
        yield Advice("set TF_GPU_ALLOCATOR=cuda_malloc_async, which joins free pieces", usable,
                     usable is not None and usable >= (dump.request.needed or 0))  # fmt: skip
    if (dump.regions or 0) > 1:
        yield Advice(
            f"the pool grew in {dump.regions} regions, which are never joined: "
            + (
                "leave set_memory_growth off, so that it is one"
                if dump.pool is PoolKind.DEVICE
                else "allocate what is large first"
            )
        )
    yield Advice("keep shapes the same from step to step (pad, drop_remainder=True): freed pieces then fit again")


def more_memory_advice(dump: Dump, outcome: FailureOutcome) -> Iterator[Advice]:
    """For more memory. The shortage is known for this one request only, not for requests that would have followed."""
    what = tensor_purpose.request_purpose(dump.request)
    short = failure_outcome.missing_bytes(dump) if outcome is FailureOutcome.FULL else None
    alone = " for this tensor alone; what comes after it is not in this log" if short else ""
    if short and what is Purpose.VARIABLE:
        alone += ": the rest of the model, what the optimizer keeps and the first step (slowtrain memory measures them)"
    if dump.pool is PoolKind.HOST and dump.limit_bytes:
        by = f" by {format_size(short)} or more" if short else ""
        yield Advice(f"raise the limit of the host's pool (TF_CPU_BFC_MEM_LIMIT_IN_MB){by}{alone}")
    elif dump.pool is PoolKind.DEVICE and what in BATCH_INDEPENDENT:
        more = f": {format_size(short)} or more" if short else ""
        yield Advice(f"a card with more memory, or a larger memory_limit where one is set{more}{alone}")


def tpu_advice(dump: Dump, outcome: FailureOutcome) -> Iterator[Advice]:
    """For a program or a runtime buffer that does not fit a TPU's memory."""
    space = dump.allocator.removeprefix("TPU").strip()
    if space and space != "hbm":
        yield Advice(f"{space} is the core's own small memory: one kernel needs more of it. Smaller blocks of that "
                     "kernel (Pallas), or a newer compiler; the batch is not the first thing to change")  # fmt: skip
        return
    padded = next((h for h in dump.by_op if (h.expansion or 1) >= MIN_PADDING_FACTOR), None)
    if padded is not None:
        where = f" at {padded.place}" if padded.place is not None else ""
        yield Advice(
            f"the layout makes {padded.name}{where} {padded.expansion:g} times as large as its values: a TPU pads the "
            "last axis to 128 and the one before it to 8; put large axes there"
        )
    if dump.kind is not FailureKind.PROGRAM:
        if outcome is FailureOutcome.FRAGMENTED:
            yield Advice("load large programs first, and free arrays before the next program is loaded")
        yield Advice("free what this process still holds on the device: jax.live_arrays() lists it; donate_argnums "
                     "gives the old state's memory to the new")  # fmt: skip
        return
    needed, limit = dump.request.needed or 0, dump.limit_bytes or 1
    arguments = next((h.bytes for h in dump.by_part if h.name == "the program's arguments"), 0)
    if next((h.bytes for h in dump.by_part if h.name == SPARSE_CORE_PART), 0) > needed / 2:
        yield Advice("most of it is the SparseCore's: tables of embeddings over more chips, fewer rows, or shorter "
                     "vectors; the batch does not change them")  # fmt: skip
        return
    yield Advice("recompute instead of keeping: jax.checkpoint around blocks of the model (keras.RematScope, "
                 "tf.recompute_grad)")  # fmt: skip
    if arguments < limit and needed > arguments:
        fits = (limit - arguments) / (needed - arguments)
        most = f"{math.floor(fits * 100)}%" if fits > 1 / 2 else share_phrase(math.ceil(1 / fits))
        yield Advice(f"as far as temporaries grow with the batch, {most} of it for each core is the most that fits")
    yield Advice("bfloat16 for activations halves those that are float32")
    yield Advice("spread weights and the optimizer's state over more chips (jax.sharding, keras.distribution)")
