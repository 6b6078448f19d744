"""Records the profiles ``gpu-*`` of this folder: small trainings on an NVIDIA GPU, each with one known cause or none.

    python tests/trace/recorded/make_gpu.py NAME FOLDER             one, in this process
    python tests/trace/recorded/make_gpu.py --all FOLDER [NAME…]    all or some, in a process each

Keras on the JAX backend, or JAX alone. Each is timed without the profiler first, so that a pair tells what its cause
was worth: FOLDER/times.jsonl has the step times.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

WARMUP, TIMED, STEPS = 12, 24, 4
PROFILES: dict[str, Callable[[Path], None]] = {}
BEFORE: dict[str, dict[str, str]] = {"gpu-launch-bound-kernels": {"XLA_FLAGS": "--xla_gpu_enable_command_buffer="}}


def profile(function: Callable[[Path], None]) -> Callable[[Path], None]:
    """Registers a recording under the function's name: ``gpu_eager`` becomes ``gpu-eager``."""
    PROFILES[function.__name__.replace("_", "-")] = function
    return function


# -- what all share


def start(folder: Path, *, frames: bool = True) -> None:
    import jax

    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = int(frames)
    jax.profiler.start_trace(str(folder), profiler_options=options)


def finished() -> None:
    """Waits for all that was started: the device works it off in turn."""
    import jax.numpy as jnp

    (jnp.zeros(()) + 1).block_until_ready()


def stop() -> None:
    import jax

    finished()
    jax.profiler.stop_trace()


def tell(folder: Path, seconds: float, steps: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "time.json").write_text(json.dumps({"name": folder.name, "step_ms": 1e3 * seconds / steps}))


def profiled(folder: Path, step: Callable[[int], Any], *, steps: int = STEPS, frames: bool = False) -> None:
    """A loop of one's own: warm-up, timed steps, then the profile of some."""
    for i in range(WARMUP):
        step(i)
    finished()
    begun = time.perf_counter()
    for i in range(TIMED):
        step(WARMUP + i)
    finished()
    tell(folder, time.perf_counter() - begun, TIMED)
    start(folder, frames=frames)
    for i in range(steps):
        step(WARMUP + TIMED + i)
    stop()


def fitted(folder: Path, model: Any, data: Any, *callbacks: Any, steps: int = STEPS) -> None:
    """``fit`` with a profile of some of its steps; not by a callback: for any of those Keras reads each step's loss."""
    model.make_train_function()
    function, taken = model.train_function, iter(range(1 << 30))
    begun = 0.0

    def step(state: Any, iterator: Any) -> Any:
        nonlocal begun
        i = next(taken)
        if i == WARMUP:
            finished()
            begun = time.perf_counter()
        if i == WARMUP + TIMED:
            finished()
            tell(folder, time.perf_counter() - begun, TIMED)
            start(folder)
        if i == WARMUP + TIMED + steps:
            stop()
        return function(state, iterator)

    model.train_function = step
    model.fit(data, epochs=1, verbose=0, callbacks=list(callbacks))


def arrays(count: int, *shape: int, classes: int = 4) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(7)
    return random.normal(size=(count, *shape)).astype("float32"), random.integers(0, classes, count).astype("int32")


def batches(rows: int, *shape: int, work: Callable[[np.ndarray], np.ndarray] = lambda x: x) -> Any:
    """A ``PyDataset`` of which ``work`` makes each batch."""
    import keras

    x, y = arrays(rows * 4, *shape)

    class Batches(keras.utils.PyDataset):
        def __len__(self) -> int:
            return WARMUP + TIMED + STEPS + 8

        def __getitem__(self, index: int) -> Any:
            at = slice(rows * (index % 4), rows * (index % 4 + 1))
            return work(x[at]), y[at]

    return Batches()


def compiled(layers: list[Any], shape: tuple[int, ...], **options: Any) -> Any:
    import keras

    model = keras.Sequential([keras.layers.Input(shape), *layers, keras.layers.Dense(4, dtype="float32")])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True), **options)
    return model


def dense(width: int, units: int, layers: int) -> Any:
    import keras

    return compiled([keras.layers.Dense(units, activation="relu") for _ in range(layers)], (width,))


def policy(name: str) -> None:
    import keras

    keras.mixed_precision.set_global_policy(name)


# -- what computes: formats and shapes


@profile
def gpu_healthy(folder: Path) -> None:
    """Large products in 16 bits, batches at hand."""
    policy("mixed_bfloat16")
    fitted(folder, dense(256, 8192, 4), batches(4096, 256), steps=3)


@profile
def gpu_float32(folder: Path) -> None:
    """The same in float32, without TF32."""
    import jax

    jax.config.update("jax_default_matmul_precision", "highest")
    fitted(folder, dense(256, 8192, 4), batches(4096, 256), steps=3)


@profile
def gpu_tf32(folder: Path) -> None:
    """The same as JAX takes float32 by itself on this card."""
    fitted(folder, dense(256, 8192, 4), batches(4096, 256), steps=3)


def photos(bfloat16: bool) -> Any:
    import keras

    policy("mixed_bfloat16" if bfloat16 else "float32")
    layers: list[Any] = []
    for filters in (64, 128, 256):
        layers += [keras.layers.Conv2D(filters, 3, padding="same", activation="relu") for _ in range(2)]
        layers += [keras.layers.BatchNormalization(), keras.layers.MaxPooling2D()]
    return compiled([*layers, keras.layers.GlobalAveragePooling2D()], (96, 96, 3))


@profile
def gpu_convolution(folder: Path) -> None:
    """Convolutions in 16 bits."""
    fitted(folder, photos(True), batches(256, 96, 96, 3), steps=2)


@profile
def gpu_convolution_float32(folder: Path) -> None:
    """The same in float32, without TF32."""
    import jax

    jax.config.update("jax_default_matmul_precision", "highest")
    fitted(folder, photos(False), batches(256, 96, 96, 3), steps=2)


@profile
def gpu_convolution_tf32(folder: Path) -> None:
    """The same as JAX takes float32 by itself on this card."""
    fitted(folder, photos(False), batches(256, 96, 96, 3), steps=2)


def products(side: int, dtype: Any, *, count: int = 6) -> Callable[[int], Any]:
    """A chain of matrix products in JAX alone, compiled."""
    import jax
    import jax.numpy as jnp

    key = jax.random.PRNGKey(0)
    weights = [jax.random.normal(k, (side, side)).astype(dtype) / side**0.5 for k in jax.random.split(key, count)]
    x = jax.random.normal(key, (side, side)).astype(dtype)

    @jax.jit
    def train_step(weights: Any, x: Any) -> Any:
        def loss(weights: Any) -> Any:
            y = x
            for weight in weights:
                y = jnp.tanh(y @ weight)
            return jnp.mean(y**2)

        return [w - 0.01 * g for w, g in zip(weights, jax.grad(loss)(weights), strict=True)]

    state = [weights]

    def step(_: int) -> None:
        state[0] = train_step(state[0], x)

    return step


@profile
def gpu_aligned(folder: Path) -> None:
    """Sides of 4096 in 16 bits, steps marked as JAX's guide has it."""
    import jax
    import jax.numpy as jnp

    step = products(4096, jnp.bfloat16)

    def marked(i: int) -> None:
        with jax.profiler.StepTraceAnnotation("train", step_num=i):
            step(i)

    profiled(folder, marked)


@profile
def gpu_unaligned(folder: Path) -> None:
    """Sides of 4093 instead."""
    import jax.numpy as jnp

    profiled(folder, products(4093, jnp.bfloat16))


@profile
def gpu_double(folder: Path) -> None:
    """float64 throughout."""
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    profiled(folder, products(2048, jnp.float64))


@profile
def gpu_single(folder: Path) -> None:
    """The pair of it."""
    import jax.numpy as jnp

    profiled(folder, products(2048, jnp.float32))


@profile
def gpu_rnn(folder: Path) -> None:
    """An LSTM of a hundred steps, each a handful of small kernels."""
    import keras

    fitted(folder, compiled([keras.layers.LSTM(128, use_cudnn=False)], (100, 32)), batches(64, 100, 32), steps=2)


@profile
def gpu_rnn_fused(folder: Path) -> None:
    """The same as Keras runs it by itself."""
    import keras

    fitted(folder, compiled([keras.layers.LSTM(128)], (100, 32)), batches(64, 100, 32), steps=2)


def activation(x: Any) -> Any:
    import jax.numpy as jnp

    y = x
    for _ in range(6):
        y = 0.5 * y * (1.0 + jnp.tanh(0.8 * (y + 0.04 * y * y * y)))
    return y


@profile
def gpu_elementwise(folder: Path) -> None:
    """Elementwise ops on large arrays, each a kernel that reads and writes all of it."""
    import jax

    x = jax.random.normal(jax.random.PRNGKey(0), (1 << 26,))
    profiled(folder, lambda _: activation(x))


@profile
def gpu_elementwise_fused(folder: Path) -> None:
    """The pair of it: compiled."""
    import jax

    x, function = jax.random.normal(jax.random.PRNGKey(0), (1 << 26,)), jax.jit(activation)
    profiled(folder, lambda _: function(x))


# -- the host


@profile
def gpu_input_bound(folder: Path) -> None:
    """Sorting makes each batch, for longer than the step."""

    def work(x: np.ndarray) -> np.ndarray:
        for _ in range(8):
            x = np.sort(x, axis=1) + np.sin(x)
        return x

    fitted(folder, dense(256, 1024, 2), batches(256, 256, work=work))


@profile
def gpu_input_ready(folder: Path) -> None:
    """The pair of it: batches at hand."""
    fitted(folder, dense(256, 1024, 2), batches(256, 256))


@profile
def gpu_launch_bound(folder: Path) -> None:
    """A model that computes next to nothing."""
    fitted(folder, dense(8, 8, 6), batches(8, 8))


@profile
def gpu_launch_bound_kernels(folder: Path) -> None:
    """The same with each kernel launched by itself (BEFORE)."""
    fitted(folder, dense(8, 8, 6), batches(8, 8))


def linear(folder: Path, compiled: Callable[[Any], Any]) -> None:
    """One layer, its gradient and its update."""
    import jax
    import jax.numpy as jnp

    def train_step(weights: Any, x: Any) -> Any:
        return weights - 0.01 * jax.grad(lambda w: jnp.mean(jnp.tanh(x @ w) ** 2))(weights)

    weights, x, step = jnp.asarray(arrays(256, 256)[0]), jnp.asarray(arrays(512, 256)[0]), compiled(train_step)
    profiled(folder, lambda _: step(weights, x).block_until_ready())


@profile
def gpu_eager(folder: Path) -> None:
    """A step without jax.jit: every operation is started by itself."""
    linear(folder, lambda step: step)


@profile
def gpu_eager_compiled(folder: Path) -> None:
    """The pair of it."""
    import jax

    linear(folder, jax.jit)


@profile
def gpu_run_eagerly(folder: Path) -> None:
    """``compile(run_eagerly=True)``."""
    import keras

    layers = [keras.layers.Dense(256, activation="relu") for _ in range(2)]
    fitted(folder, compiled(layers, (64,), run_eagerly=True), batches(64, 64), steps=2)


@profile
def gpu_retracing(folder: Path) -> None:
    """A compiled step is given another shape each time."""
    import jax
    import jax.numpy as jnp

    weights, (x, _) = jnp.asarray(arrays(256, 256)[0]), arrays(512, 256)
    step = jax.jit(lambda w, x: w - 0.01 * jax.grad(lambda w: jnp.mean(jnp.tanh(x @ w) ** 2))(w))
    given = [jnp.asarray(x[: 64 + i]) for i in range(WARMUP + TIMED + STEPS)]
    profiled(folder, lambda i: step(weights, given[i]).block_until_ready())


def sorting(folder: Path, ranks: Callable[[Any], Any]) -> None:
    """A step of which ``ranks`` is a part; what it works on is no constant of its program."""
    import jax
    import jax.numpy as jnp

    @jax.jit
    def train_step(weights: Any, x: Any) -> Any:
        return weights - 0.01 * (x.T @ ranks(jnp.tanh(x @ weights)))

    x, weights = (jax.random.normal(jax.random.PRNGKey(i), (2048, 2048)) for i in range(2))
    state = [weights]

    def step(_: int) -> None:
        state[0] = train_step(state[0], x)

    profiled(folder, step)


@profile
def gpu_host_ops(folder: Path) -> None:
    """Part of the step is NumPy, called from the compiled program."""
    import jax

    def ranks(y: Any) -> Any:
        return jax.pure_callback(lambda a: np.sort(np.asarray(a), axis=1), jax.ShapeDtypeStruct(y.shape, y.dtype), y)

    sorting(folder, ranks)


@profile
def gpu_device_ops(folder: Path) -> None:
    """The pair of it: sorted on the device."""
    import jax.numpy as jnp

    sorting(folder, lambda y: jnp.sort(y, axis=1))


# -- between host and device


@profile
def gpu_readback(folder: Path) -> None:
    """A callback keeps each step's loss: Keras reads it for it."""
    import keras

    lines = []

    class Watch(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            lines.append(f"{batch}: {logs['loss']:.4f}")

    fitted(folder, dense(256, 2048, 3), batches(512, 256), Watch())


@profile
def gpu_logs_unread(folder: Path) -> None:
    """The pair of it: no callback."""
    fitted(folder, dense(256, 2048, 3), batches(512, 256))


@profile
def gpu_loss_read(folder: Path) -> None:
    """A loop of one's own that reads the loss in every step, for a line of log."""
    losses(folder, float)


@profile
def gpu_loss_kept(folder: Path) -> None:
    """The pair of it: it stays on the device."""
    losses(folder, lambda loss: loss)


def losses(folder: Path, read: Callable[[Any], Any]) -> None:
    import jax
    import jax.numpy as jnp

    weights = [jax.random.normal(jax.random.PRNGKey(i), (1024, 1024)) / 32 for i in range(3)]
    x = jax.random.normal(jax.random.PRNGKey(9), (512, 1024))

    def loss(weights: Any, x: Any) -> Any:
        for weight in weights:
            x = jnp.tanh(x @ weight)
        return jnp.mean(x**2)

    value = jax.jit(jax.value_and_grad(loss))
    lines = []

    def step(i: int) -> None:
        lost, _ = value(weights, x)
        lines.append((i, read(lost)))

    profiled(folder, step)


@profile
def gpu_fed(folder: Path) -> None:
    """Pictures in float32 are handed to each step from NumPy."""
    fed(folder, np.float32)


@profile
def gpu_fed_bytes(folder: Path) -> None:
    """The same pictures as bytes, cast on the device."""
    fed(folder, np.uint8)


def fed(folder: Path, dtype: Any) -> None:
    import jax
    import jax.numpy as jnp

    pictures = [np.random.default_rng(i).integers(0, 255, (128, 224, 224, 3)).astype(dtype) for i in range(4)]
    kernel = jax.random.normal(jax.random.PRNGKey(0), (7, 7, 3, 32))

    @jax.jit
    def train_step(kernel: Any, x: Any) -> Any:
        def loss(kernel: Any) -> Any:
            pixels = x.astype(jnp.float32) / 255.0
            y = jax.lax.conv_general_dilated(pixels, kernel, (4, 4), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
            return jnp.mean(y**2)

        return kernel - 0.01 * jax.grad(loss)(kernel)

    state = [kernel]

    def step(i: int) -> None:
        state[0] = train_step(state[0], pictures[i % 4])

    profiled(folder, step)


@profile
def gpu_small_copies(folder: Path) -> None:
    """Two hundred small arrays are handed to each step."""
    small(folder, 200)


@profile
def gpu_one_copy(folder: Path) -> None:
    """The same numbers as one array."""
    small(folder, 1)


def small(folder: Path, count: int) -> None:
    import jax
    import jax.numpy as jnp

    given = [{f"f{i}": a for i, a in enumerate(np.split(arrays(200, 128)[0] * k, count))} for k in range(1, 5)]
    weights = jax.random.normal(jax.random.PRNGKey(0), (128, 2048))
    deep = jax.random.normal(jax.random.PRNGKey(1), (2048, 2048)) / 45

    @jax.jit
    def train_step(weights: Any, deep: Any, given: Any) -> Any:
        x = jnp.concatenate(list(given.values()))
        return weights - 0.01 * jax.grad(lambda w: jnp.mean((jnp.tanh(x @ w) @ deep) ** 2))(weights)

    state = [weights]

    def step(i: int) -> None:
        state[0] = train_step(state[0], deep, given[i % 4])

    profiled(folder, step)


def main(arguments: list[str]) -> None:
    if arguments == ["--list"]:
        print("\n".join(PROFILES))
        return
    name, folder, *some = arguments
    if name != "--all":
        os.environ["KERAS_BACKEND"] = "jax"
        PROFILES[name](Path(folder))
        return
    for each in some or PROFILES:
        command = [sys.executable, __file__, each, f"{folder}/{each}"]
        around = os.environ | BEFORE.get(each, {})
        done = subprocess.run(command, env=around, capture_output=True, text=True, timeout=120, check=False)
        took = Path(folder, each, "time.json")
        line = took.read_text() if took.is_file() else json.dumps({"name": each, "failed": done.stderr[-600:]})
        with Path(folder, "times.jsonl").open("a") as times:
            times.write(f"{line}\n")
        print(line, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
