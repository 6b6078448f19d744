"""Advice on JAX's memory: its settings, and changes to its programs, with the bytes they free if these are known.

JAX uses TensorFlow's allocator, so its dumps are the same, down to the advice in them. Its settings have other names,
which are documented in https://docs.jax.dev/en/latest/201/gpu-memory.html and in jaxlib's
``generate_pjrt_gpu_plugin_options``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from slowtrain.oom.log_text import format_size
from slowtrain.shared.exhaustion import Advice, Dump, FailureOutcome

# Newer versions name it XLA_CLIENT_MEM_FRACTION, and still accept this name.
FRACTION_VARIABLE = "XLA_PYTHON_CLIENT_MEM_FRACTION"
DEFAULT_POOL_SHARE, MAX_POOL_SHARE = (
    0.75,
    0.95,
)  # of the GPU's memory: JAX's default, and the most that leaves enough for the driver
MIN_EQUAL_PIECES = 32  # pieces of one size from one op: normally more than a model has layers of one shape


def jax_advice(dump: Dump, outcome: FailureOutcome, smaller: Sequence[Advice]) -> Iterator[Advice]:
    if outcome is FailureOutcome.TAKEN:
        yield from _taken_advice(dump)
        return
    if outcome is FailureOutcome.FRAGMENTED:
        yield from _fragmentation_advice(dump)
    elif outcome is not FailureOutcome.TOO_LARGE:
        yield from _kept_results_advice(dump)
    yield from _whole_card_advice(dump)
    yield from smaller
    yield Advice(
        "recompute activations instead of keeping them, if gradients are computed: jax.checkpoint around blocks of "
        "the model (keras.RematScope)"
    )
    if outcome is not FailureOutcome.FRAGMENTED:
        yield Advice(
            "in your own training loop: jax.jit(step, donate_argnums=0), so that the new state reuses the memory of "
            "the old one"
        )
    if outcome is FailureOutcome.UNKNOWN:
        yield Advice("run it with TF_CPP_MIN_LOG_LEVEL=0 to get the allocator's dump, which JAX omits by default")


def _taken_advice(dump: Dump) -> Iterator[Advice]:
    gain = dump.growth_bytes
    enough = None if gain is None else gain + (dump.free_bytes or 0) >= (dump.request.needed_bytes or 0)
    yield Advice("stop the other processes on this card (nvidia-smi lists them), or use another card", gain, enough)
    yield Advice(
        f"if both are yours, give each a share: {FRACTION_VARIABLE}=0.45, or XLA_PYTHON_CLIENT_PREALLOCATE=false; "
        "TensorFlow in the same process takes the whole card unless tf.config.set_visible_devices([], 'GPU') "
        "prevents it"
    )


def _fragmentation_advice(dump: Dump) -> Iterator[Advice]:
    usable = dump.free_bytes
    enough = usable is not None and usable >= (dump.request.needed_bytes or 0)
    yield Advice("set XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async, whose pool can join free pieces", usable, enough)
    if (dump.regions or 0) > 1:
        yield Advice(
            f"the pool grew in {dump.regions} regions, which are never joined: leave XLA_PYTHON_CLIENT_PREALLOCATE "
            "at true, so that there is one region"
        )
    yield Advice("allocate large, permanent arrays first, and keep shapes constant: freed pieces then fit again")


def _kept_results_advice(dump: Dump) -> Iterator[Advice]:
    """Very many pieces of one size from one program: its results, all of which are still referenced."""
    if not dump.by_op or not dump.by_size or dump.in_use_bytes is None:
        return
    by, each = dump.by_op[0], dump.by_size[0]
    if by.count >= each.count >= MIN_EQUAL_PIECES and each.bytes >= 0.5 * dump.in_use_bytes:
        yield Advice(
            f"{by.name} made {each.count} pieces of {format_size(each.each_bytes)} that are still held: if a list "
            "keeps a result of every step, keep float(x) or numpy.asarray(x) instead"
        )


def _whole_card_advice(dump: Dump) -> Iterator[Advice]:
    limit = dump.limit_bytes
    if limit is None:
        yield Advice(f"give the pool more of the card than its default of 75%: {FRACTION_VARIABLE}=0.95")
        return
    more = round(limit * (MAX_POOL_SHARE / DEFAULT_POOL_SHARE - 1))
    yield Advice(
        f"give the pool more of the card: {FRACTION_VARIABLE}=0.95; if {format_size(limit)} is the default of 75%, "
        f"that is {format_size(more)} more"
    )
