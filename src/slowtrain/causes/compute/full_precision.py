"""Matrix products in float32 or TF32 on a GPU whose tensor cores take 16 bits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slowtrain.causes import Cause
from slowtrain.columns.device import Device
from slowtrain.model import Category, Effect, Evidence, Prescription, Signal, Spot
from slowtrain.number_text import format_number
from slowtrain.profile import framework_names, op_shapes
from slowtrain.script.locations.recorded_sources import edit_project
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source
from slowtrain.source.cures.compute import models
from slowtrain.source.spots.compute import late
from slowtrain.trace import Trace
from slowtrain.trace.signals.device import tensor_cores
from slowtrain.values import dataclass
from slowtrain.whatif import Drop, Remedy

MOSTLY = 0.5  # of the matrix work of known format: less, and the layers left in float32 were left so on purpose
TWICE = 2.0  # as fast at best is what memory bounds, for half the bytes
LEAST_GAIN = 1.5  # at which small products, which fill neither unit, end
# On an H100 two steps that compute nearly all the time went from 17.1 to 8.3 ms (products) and from 21.3 to 13.5
# (convolutions) when TF32 became mixed precision (tests/trace/recorded/times.jsonl). Small products gain less.
LEAST_TF32_GAIN = 1.1
HALF_OTHER_GAIN = 1.5  # of the second pair's other kernels, whose numbers became half as wide as well
FLOAT32, TF32 = "float32", "tf32"


@dataclass(frozen=True)
class Work:
    """Ms a step of the device in ``format``: ``matrix_ms`` bound by arithmetic, ``streamed_ms`` by memory.

    ``format`` is float32, or TF32 where most of the matrix work is in that.
    """

    format: str
    matrix_ms: float
    streamed_ms: float
    other_ms: float
    gain: float  # of the peaks, by TF32 where the card has it and does not use it, else by 16 bits
    most: float  # by 16 bits

    @property
    def least_gain(self) -> float:
        """Of products that fill neither unit: from TF32 to 16 bits next to none."""
        return LEAST_GAIN if self.format == FLOAT32 else LEAST_TF32_GAIN

    @property
    def other_gain(self) -> float:
        """Of the other kernels: TF32 leaves their numbers as they are, 16 bits do not."""
        return 1.0 if self.format == FLOAT32 else HALF_OTHER_GAIN


class FullPrecision(Cause):
    """Matrix products and convolutions run in float32 or TF32 on a GPU whose tensor cores take 16 bits.

    ## What it means
    Since Volta, GPUs have units that multiply small matrices of 16-bit numbers many times as fast as
    the ordinary units multiply float32; since Ampere they take float32 too, rounded to TF32, which TensorFlow uses
    unless it was told not to. On the cards of computing centres the difference is four to sixteen times. From TF32 to
    16 bits it is twice, for half the bytes.

    ## How it is recognised
    At least half of the device's time in matrix products and convolutions is in kernels of float32, by their
    names, on a card with tensor cores; or in kernels of TF32, on a card that computes in 16 bits at a higher rate.
    Kernels whose names do not tell their format do not count.
    The saving is an estimate from the card's peaks by kernel class: most of the peaks' ratio where arithmetic bounds
    kernels that take long, less of it of short ones, and at most twice where memory bounds. Its range is wide,
    for shapes decide.
    In source text: a mixed policy that is set after the layers were made, which has no effect on them.

    ## What to do
    `keras.mixed_precision.set_global_policy("mixed_float16")`, with `"mixed_bfloat16"` on Ampere and
    later; in a loop of your own, with a `LossScaleOptimizer` for float16. If TF32 was switched off
    (`tf.config.experimental.enable_tensor_float_32_execution(False)`, in JAX `jax_default_matmul_precision` of
    `"highest"` or `"float32"`), switch it on again.

    ## When it is not worth it
    When the step waits for something else than the device; and where small differences between large numbers matter,
    as in physics. `slowtrain fix` measures what 16 bits give, and compares the losses.
    """

    title = "Matrix work in wider numbers than the tensor cores need"
    needs = frozenset({Signal.STEPS, Signal.DEVICE})
    words = late.SETTING

    def wants(self, trace: Trace) -> frozenset[Signal]:
        device = trace.device
        wanted = tensor_cores.signals_without_products(trace)
        if device is None or wanted is not None:
            return super().wants(trace) | (wanted or frozenset())
        unknown = device.kind != "GPU" or not tensor_cores.is_format_known(device)
        unnamed = device.kind == "GPU" and tensor_cores.find_card(trace) is None
        return super().wants(trace) | ({Signal.MODEL} if unknown else set()) | ({Signal.MACHINE} if unnamed else set())

    def examine(self, trace: Trace) -> Evidence | None:
        found = _work(trace)
        if found is None or trace.device is None:
            return None
        ms = found.matrix_ms + found.streamed_ms
        share = ms / trace.step_ms if trace.step_ms else 0.0
        named = "float32" if found.format == FLOAT32 else "TF32"
        by = _units(trace) if found.format == FLOAT32 else "16 bits"
        return Evidence(
            f"matrix products and convolutions take {format_number(ms)} ms of each step ({share:.0%}) in {named}; "
            f"{by} do them up to {format_number(found.most, 2)} times as fast",
            {"float32_ms": ms, "float32_share": share, "tensor_core_ms": trace.device.tensor_core_ms,
             "peak_ratio": found.most},
            tensor_cores.op_lines(trace.device, lambda op: op_shapes.product_format(op) in (FLOAT32, TF32)),
        )  # fmt: skip

    def remedy(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        found = _work(trace)
        if found is None:
            return []
        reached = tensor_cores.reached_gain_share(trace.device, found.format) if trace.device is not None else 0.0
        usual = max(1 + reached * (found.gain - 1), found.least_gain)

        def saved(gain: float, streamed: float, other: float) -> float:
            return (found.matrix_ms * (1 - 1 / gain) + found.streamed_ms * (1 - 1 / streamed)
                    + found.other_ms * (1 - 1 / other))  # fmt: skip

        ms = saved(usual, LEAST_GAIN, 1 + reached * (found.other_gain - 1))
        least, most = saved(found.least_gain, 1.0, 1.0), saved(found.most, TWICE, TWICE)
        return [Drop({Category.DEVICE: ms}, 0.0, (min(least / ms, 1.0), max(most / ms, 1.0)))] if ms > 0 else []

    def prescribe(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        card = tensor_cores.find_card(trace)
        device = trace.device
        if card and card.peaks and card.peaks[1] and card.vendor == "nvidia" and device and _of(device, "tf32") <= 0:
            on = "switch TF32 on: tf.config.experimental.enable_tensor_float_32_execution(True)"
            if trace.on_jax:
                on = 'switch TF32 on: jax.config.update("jax_default_matmul_precision", "default")'
            switched = edit_project(trace, models.tensor_float)
            yield Prescription("edit" if switched else "setting", Effect.EQUIVALENT, on, edits=switched)
        format_ = "mixed_bfloat16" if card is not None and card.capability >= (8, 0) else "mixed_float16"
        says = f'keras.mixed_precision.set_global_policy("{format_}") before the model is built'
        done = edit_project(trace, lambda text: models.mixed(text, format_))
        policy = "mixed-precision" if format_ == "mixed_float16" else None
        yield Prescription("edit", Effect.CHANGES_TRAINING, says, edits=done, treatment=policy)

    def spot(self, source: Source) -> Iterable[Spot]:
        """A mixed policy that is set when all layers are there."""
        for call in late.policies(source):
            says = "the layers were made before this policy is set, and compute in float32"
            cure = Prescription("edit", Effect.CHANGES_TRAINING, "set the policy before the first layer is made")
            yield Spot(edits.node_start(call), edits.node_end(call), says, cure)

    fixes = (
        (
            """
        import keras
        import numpy as np
        from keras import layers

        keras.utils.set_random_seed(0)
        x, y = np.random.rand(256, 32), np.random.rand(256, 1)
        model = keras.Sequential([layers.Dense(64), layers.Dense(1, dtype="float32")])
        model.build((None, 32))
        keras.mixed_precision.set_global_policy("mixed_bfloat16")
        model.compile("sgd", "mse")
        history = model.fit(x, y, batch_size=64)
        """,
            """
        import keras
        import numpy as np
        from keras import layers

        keras.utils.set_random_seed(0)
        x, y = np.random.rand(256, 32), np.random.rand(256, 1)
        keras.mixed_precision.set_global_policy("mixed_bfloat16")
        model = keras.Sequential([layers.Dense(64), layers.Dense(1, dtype="float32")])
        model.build((None, 32))
        model.compile("sgd", "mse")
        history = model.fit(x, y, batch_size=64)
        """,
        ),
    )

    fires = (
        # TF32, in half of the step.
        """
        step    1111111111
        device  kkkkkk....
        h2d     ......hhhh
        @device busy=6 kernels=300 matrix={"tf32":5} precision={"tf32":5,"float32":1} by={"sm90_tf32f32_gemm":[5,60]}
        & facts={"device_vendor":"Nvidia","compute_cap_major":9,"compute_cap_minor":0}
        """,
        """
        step    1111111111
        device  kkkkkkkkk.
        @device busy=9 kernels=300 matrix={"float32":7} precision={"float32":9} by={"volta_sgemm_128x64_nn":[7,60]}
        & facts={"compute_cap_major":7,"compute_cap_minor":0}
        """,
        """
        step    1111111111
        device  kkkkkkkkk.
        @device busy=9 kernels=300 matrix={"float32":6,"tf32":0.5,"unknown":1} precision={"float32":6,"tf32":0.5}
        & facts={"device_vendor":"Nvidia","compute_cap_major":8,"compute_cap_minor":0}
        """,
        """
        step    1111111111
        device  kkkkkkkkk.
        @fact profile=true
        @device busy=9 kernels=300 matrix={"float32":8} facts={"device_vendor":"AMD","compute_cap_major":9,
        & "compute_cap_minor":4}
        """,
    )
    quiet = (
        # TF32 in a step of which it is little.
        """
        step     1111111111
        device   k.........
        dispatch .ddddddddd
        @device busy=1 kernels=300 matrix={"tf32":0.8} precision={"tf32":0.8,"float32":0.2}
        & facts={"compute_cap_major":9,"compute_cap_minor":0}
        """,
        """
        step    1111111111
        device  kkkkkkkkk.
        @device busy=9 kernels=300 matrix={"float16":6,"float32":1} tensor=6 precision={"float16":7,"float32":2}
        & facts={"compute_cap_major":7,"compute_cap_minor":0}
        """,
        """
        step    1111111111
        device  kkkkkkkkk.
        @device busy=9 kernels=300 matrix={"float32":8} facts={"compute_cap_major":6,"compute_cap_minor":1}
        """,
        """
        step    1111111111
        device  kkkkkkkkk.
        @device busy=9 kernels=300 matrix={"unknown":7,"float32":1} facts={"compute_cap_major":8,"compute_cap_minor":0}
        """,
        """
        step    1111111111
        device  k.........
        input   .iiiiiiiii
        @device busy=1 kernels=300 matrix={"float32":1} facts={"compute_cap_major":7,"compute_cap_minor":0}
        """,
    )


def _of(device: Device, *formats: str) -> float:
    return sum(device.matrix_ms.get(f, 0.0) for f in formats)


def _units(trace: Trace) -> str:
    card = tensor_cores.find_card(trace)
    return "16-bit matrix cores" if card is not None and card.vendor == "amd" else "the tensor cores"


def _work(trace: Trace) -> Work | None:
    """None where matrix work is not in float32, or the card has nothing faster for it."""
    device, card = trace.device, tensor_cores.find_card(trace)
    if device is None or card is None or card.peaks is None or not tensor_cores.is_format_known(device):
        return None
    known = sum(device.matrix_ms.values()) - _of(device, tensor_cores.UNKNOWN_FORMAT)
    plain, tf32, half = card.peaks
    by_tf32 = tf32 is not None and tf32 > plain
    rate, format_ = plain, FLOAT32
    if by_tf32 and tf32 is not None and _of(device, TF32) > 0 and _of(device, TF32) >= MOSTLY * known:
        rate, format_ = tf32, TF32
    wide = _of(device, format_)
    if wide <= 0 or wide < MOSTLY * known or half <= rate:
        return None
    streamed = sum(
        ms for name, (ms, _) in device.by_kernel.items()
        if framework_names.STREAMED_MATRIX_KERNEL.search(name) and framework_names.kernel_precision(name) == format_
    )  # fmt: skip
    # Kernels of several streams overlap: of the step they take what the device was busy for.
    scale = min(trace.mean(Category.DEVICE) / device.kernel_ms, 1.0) if device.kernel_ms else 1.0
    streamed = min(streamed, wide)
    other = max(device.precision.get(FLOAT32, 0.0) - _of(device, FLOAT32), 0.0)
    if format_ == TF32:  # XLA's fusions do not name their format, which is float32 beside such products
        other = max(device.kernel_ms - sum(device.matrix_ms.values()), other)
        other = min(other, wide)  # what stands around products, not a loop beside them
    next_rate = tf32 if by_tf32 and tf32 is not None and format_ == FLOAT32 else half
    times = scale * (wide - streamed), scale * streamed, scale * other
    return Work(format_, *times, next_rate / rate, half / rate)
