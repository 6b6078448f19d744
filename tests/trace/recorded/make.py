"""Records the profiles of this folder: small trainings on the CPU, each made with one known cause or with none.

    python tests/trace/recorded/make.py NAME FOLDER      one, in this process, with the backend its name begins with
    python tests/trace/recorded/make.py --list

README.md says how the profile in FOLDER becomes the file beside it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

WARMUP, STEPS = 12, 4  # steps before the profile, steps in it
FEW = 3  # steps of those that write very many events
PROFILES: dict[str, Callable[[Path], None]] = {}


def profile(function: Callable[[Path], None]) -> Callable[[Path], None]:
    """Registers a recording under the function's name: ``tf_generator`` becomes ``tf-generator``."""
    PROFILES[function.__name__.replace("_", "-")] = function
    return function


# -- what all share


def arrays(count: int, *shape: int, classes: int = 4) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(7)
    return random.normal(size=(count, *shape)).astype("float32"), random.integers(0, classes, count).astype("int32")


def photos(count: int, side: int) -> tuple[list[bytes], np.ndarray]:
    """JPEGs in memory."""
    import tensorflow as tf

    random = np.random.default_rng(7)
    pictures = [
        tf.image.resize(random.uniform(0, 255, (16, 16, 3)), (side, side)).numpy().astype("uint8") for _ in range(8)
    ]
    return [tf.io.encode_jpeg(pictures[i % 8]).numpy() for i in range(count)], random.integers(0, 4, count)


def dense(width: int, units: int, layers: int = 2) -> Any:
    import keras

    inner = [keras.layers.Dense(units, activation="relu") for _ in range(layers)]
    model = keras.Sequential([keras.layers.Input((width,)), *inner, keras.layers.Dense(4)])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def convolution(side: int, filters: int) -> Any:
    import keras

    model = keras.Sequential([
        keras.layers.Input((side, side, 3)),
        keras.layers.Conv2D(filters, 3, strides=2, activation="relu"),
        keras.layers.Conv2D(2 * filters, 3, strides=2, activation="relu"),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(4),
    ])  # fmt: skip
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def start(folder: Path, *, frames: bool = True) -> None:
    """Starts the backend's profiler as it starts by default; ``frames``: JAX notes Python's frames too."""
    import keras

    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        tf.profiler.experimental.start(str(folder))
    else:
        import jax

        options = jax.profiler.ProfileOptions()
        options.python_tracer_level = int(frames)
        jax.profiler.start_trace(str(folder), profiler_options=options)


def stop() -> None:
    import keras

    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        tf.profiler.experimental.stop()
    else:
        import jax

        jax.profiler.stop_trace()


def profiled(folder: Path, step: Callable[[int], Any], *, steps: int = STEPS, frames: bool = True) -> None:
    """A loop of one's own: warm-up, then the profile of some steps."""
    for i in range(WARMUP):
        step(i)
    start(folder, frames=frames)
    for i in range(steps):
        step(WARMUP + i)
    stop()


def fitted(folder: Path, model: Any, data: Any, *callbacks: Any, steps: int = STEPS, **options: Any) -> None:
    """``fit`` with a profile of some of its steps, taken as Keras's TensorBoard callback takes them."""
    import keras

    class Window(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            if batch == WARMUP:
                start(folder)

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if batch == WARMUP + steps - 1:
                stop()

    model.fit(data, epochs=1, verbose=0, callbacks=[*callbacks, Window()], **options)


def plain(dataset: Any, *, prefetch: bool = True) -> Any:
    """``dataset`` as it is written: TensorFlow fuses nothing, makes no map parallel and adds no prefetch by itself."""
    import tensorflow as tf

    options = tf.data.Options()
    options.autotune.enabled = False
    options.experimental_optimization.apply_default_optimizations = False
    return (dataset.prefetch(1) if prefetch else dataset).with_options(options)


# -- TensorFlow: input


def decode(photo: Any, label: Any) -> Any:
    import tensorflow as tf

    picture = tf.io.decode_jpeg(photo, channels=3)
    return tf.image.resize(picture, (64, 64)) / 255.0, label


def jpegs(batch: int = 16, side: int = 240) -> Any:
    import tensorflow as tf

    count = batch * (WARMUP + STEPS + 8)
    return tf.data.Dataset.from_tensor_slices(photos(count, side))


@profile
def tf_input_sequential_map(folder: Path) -> None:
    """JPEGs are decoded one after the other; a core is idle."""
    fitted(folder, convolution(64, 4), plain(jpegs().map(decode).batch(16)))


@profile
def tf_input_parallel_map(folder: Path) -> None:
    """The pair of it: the same decoding in parallel, fewer pixels, and a model that takes longer than its input."""
    import tensorflow as tf

    data = jpegs(side=64).map(decode, num_parallel_calls=tf.data.AUTOTUNE).batch(16).prefetch(tf.data.AUTOTUNE)
    fitted(folder, convolution(64, 48), data, steps=FEW)


@profile
def tf_input_generator(folder: Path) -> None:
    """A generator hands over one sample at a time."""
    import tensorflow as tf

    x, y = arrays(512, 32)

    def samples() -> Iterator[Any]:
        while True:
            for i in range(len(x)):
                row = x[i]
                yield row / np.sqrt((row * row).sum()), y[i]

    signature = (tf.TensorSpec((32,)), tf.TensorSpec((), tf.int32))
    data = tf.data.Dataset.from_generator(samples, output_signature=signature).batch(32).prefetch(1)
    fitted(folder, dense(32, 64), data, steps=FEW, steps_per_epoch=WARMUP + STEPS + 8)


@profile
def tf_input_py_function(folder: Path) -> None:
    """A numpy_function works on each element, a loop in Python in it."""
    import tensorflow as tf

    x, y = arrays(16 * (WARMUP + STEPS + 8), 32)

    def smooth(row: np.ndarray) -> np.ndarray:
        out = row.copy()
        for _ in range(6):
            for i in range(1, len(out) - 1):
                out[i] = 0.25 * out[i - 1] + 0.5 * out[i] + 0.25 * out[i + 1]
        return out

    def function(row: Any, label: Any) -> Any:
        return tf.ensure_shape(tf.numpy_function(smooth, [row], tf.float32), (32,)), label

    data = tf.data.Dataset.from_tensor_slices((x, y)).map(function, num_parallel_calls=2).batch(16).prefetch(1)
    fitted(folder, dense(32, 64), data)


@profile
def tf_input_arrays(folder: Path) -> None:
    """The pair of both: the same data from memory, in whole batches."""
    import tensorflow as tf

    x, y = arrays(64 * (WARMUP + STEPS + 8), 32)
    fitted(folder, dense(32, 1024), tf.data.Dataset.from_tensor_slices((x, y)).batch(64).prefetch(2))


@profile
def tf_input_unprefetched(folder: Path) -> None:
    """Batches are made in the step's own thread, half as long as the step."""
    fitted(folder, convolution(64, 24), plain(jpegs(side=96).map(decode).batch(16), prefetch=False), steps=FEW)


@profile
def tf_input_prefetched(folder: Path) -> None:
    """The pair of it."""
    fitted(folder, convolution(64, 24), plain(jpegs(side=96).map(decode).batch(16)), steps=FEW)


@profile
def tf_input_per_element(folder: Path) -> None:
    """A map that does next to nothing is called for each row of a table."""
    import tensorflow as tf

    x, y = arrays(160 * (WARMUP + STEPS + 8), 4)
    data = tf.data.Dataset.from_tensor_slices((x, y)).map(lambda row, label: (row * 2.0, label)).batch(160)
    fitted(folder, dense(4, 16), data.prefetch(1), steps=2)


@profile
def tf_input_batch_map(folder: Path) -> None:
    """The pair of it: whole batches are mapped, and the model is larger."""
    import tensorflow as tf

    x, y = arrays(256 * (WARMUP + STEPS + 8), 32)
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(256).map(lambda rows, labels: (rows * 2.0, labels))
    fitted(folder, dense(32, 768), data.prefetch(2), steps=FEW)


@profile
def tf_input_small_files(folder: Path) -> None:
    """Every element is a small file."""
    import tempfile

    import tensorflow as tf

    x, y = arrays(64 * 4, 32768)
    with tempfile.TemporaryDirectory() as files:
        names = [f"{files}/{i:04d}" for i in range(len(x))]
        for name, row in zip(names, x, strict=True):
            Path(name).write_bytes(row.tobytes())

        def read(name: Any, label: Any) -> Any:
            return tf.ensure_shape(tf.io.decode_raw(tf.io.read_file(name), tf.float32)[:64], (64,)), label

        data = tf.data.Dataset.from_tensor_slices((names, y)).repeat().map(read, num_parallel_calls=2).batch(40)
        fitted(folder, dense(64, 16), data.prefetch(1), steps=12, steps_per_epoch=WARMUP + 20)


# -- TensorFlow: the host


def training(model: Any) -> Callable[[Any, Any], Any]:
    """One step of a loop of one's own."""
    import keras
    import tensorflow as tf

    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = keras.optimizers.SGD(0.01)

    def train(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            value = loss(y, model(x, training=True))
        gradients = tape.gradient(value, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return value

    return train


def batches(rows: int = 64, width: int = 32) -> Iterator[Any]:
    import tensorflow as tf

    x, y = arrays(rows * 4, width)
    return iter(tf.data.Dataset.from_tensor_slices((x, y)).batch(rows).repeat().prefetch(2))


@profile
def tf_host_eager(folder: Path) -> None:
    """No tf.function around the step."""
    train, feed = training(dense(32, 64)), batches()
    profiled(folder, lambda _: train(*next(feed)), steps=FEW)


@profile
def tf_host_run_eagerly(folder: Path) -> None:
    """``compile(run_eagerly=True)``."""
    import keras
    import tensorflow as tf

    model = dense(32, 64)
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True), run_eagerly=True)
    x, y = arrays(64 * (WARMUP + STEPS + 8), 32)
    fitted(folder, model, tf.data.Dataset.from_tensor_slices((x, y)).batch(64).prefetch(2), steps=FEW)


@profile
def tf_host_graph(folder: Path) -> None:
    """The pair of both, with layers large enough that starting them does not count."""
    import tensorflow as tf

    train, feed = tf.function(training(dense(32, 1024, layers=4))), batches()
    profiled(folder, lambda _: train(*next(feed)))


@profile
def tf_host_retracing(folder: Path) -> None:
    """A learning rate that is a Python number, another one in every step."""
    import tensorflow as tf

    model = dense(32, 64)
    train, feed = training(model), batches()

    @tf.function
    def step(x: Any, y: Any, rate: Any) -> Any:
        return train(x, y) * rate

    profiled(folder, lambda i: step(*next(feed), 0.1 * 0.9**i), steps=STEPS + 2)


@profile
def tf_host_traced_once(folder: Path) -> None:
    """The pair of it: the rate is a tensor."""
    import tensorflow as tf

    model = dense(32, 1024, layers=4)
    train, feed = training(model), batches()

    @tf.function
    def step(x: Any, y: Any, rate: Any) -> Any:
        return train(x, y) * rate

    profiled(folder, lambda i: step(*next(feed), tf.constant(0.1 * 0.9**i)))


@profile
def tf_host_readback(folder: Path) -> None:
    """Each step's labels are read value by value."""
    import tensorflow as tf

    model = dense(32, 64)
    train, feed = tf.function(training(model)), batches(rows=16)

    def step(_: int) -> None:
        x, y = next(feed)
        train(x, y)
        sum(float(value) for value in y)

    profiled(folder, step, steps=FEW)


@profile
def tf_host_launch_bound(folder: Path) -> None:
    """A model that computes next to nothing."""
    import tensorflow as tf

    x, y = arrays(8 * (WARMUP + STEPS + 8), 8)
    fitted(folder, dense(8, 8), tf.data.Dataset.from_tensor_slices((x, y)).batch(8).prefetch(2))


# -- TensorFlow: computing


def lookups(first: bool) -> Callable[[int], Any]:
    """Steps that look up unit rows of a large table: of rows looked up ``first``, or of the whole table."""
    import tensorflow as tf

    random = np.random.default_rng(7)
    table = tf.Variable(random.normal(size=(120_000, 32)).astype("float32"))
    weights = tf.Variable(random.normal(size=(32, 4)).astype("float32"))
    ids, labels = tf.constant(random.integers(0, 120_000, 512)), tf.constant(random.integers(0, 4, 512))

    @tf.function
    def step() -> Any:
        with tf.GradientTape() as tape:
            if first:
                rows = tf.math.l2_normalize(tf.gather(table, ids), axis=1)
            else:
                rows = tf.gather(tf.math.l2_normalize(table, axis=1), ids)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, rows @ weights))
        for variable, gradient in zip((table, weights), tape.gradient(loss, (table, weights)), strict=True):
            if isinstance(gradient, tf.IndexedSlices):
                variable.scatter_sub(tf.IndexedSlices(0.1 * gradient.values, gradient.indices))
            else:
                variable.assign_sub(0.1 * gradient)
        return loss

    return lambda _: step()


@profile
def tf_whole_table(folder: Path) -> None:
    """All rows of a table are normalised, of which a batch looks up one in 250."""
    profiled(folder, lookups(first=False))


@profile
def tf_table_rows(folder: Path) -> None:
    """The pair of it: only the rows looked up."""
    profiled(folder, lookups(first=True))


# -- Keras on JAX, and JAX


def generated(rows: int, width: int, work: Callable[[np.ndarray], np.ndarray] = lambda x: x) -> Any:
    """A ``PyDataset`` of which ``work`` makes each batch."""
    import keras

    x, y = arrays(rows * 4, width)

    class Batches(keras.utils.PyDataset):
        def __len__(self) -> int:
            return WARMUP + STEPS + 8

        def __getitem__(self, index: int) -> Any:
            at = slice(rows * (index % 4), rows * (index % 4 + 1))
            return work(x[at]), y[at]

    return Batches()


@profile
def jax_healthy(folder: Path) -> None:
    """Arrays in memory and a model that keeps the processor busy."""
    fitted(folder, dense(256, 1024, layers=3), generated(128, 256), steps=FEW)


@profile
def jax_input_bound(folder: Path) -> None:
    """Sorting makes each batch, for longer than the step."""

    def work(x: np.ndarray) -> np.ndarray:
        for _ in range(12):
            x = np.sort(x, axis=1) + np.sin(x)
        return x

    fitted(folder, dense(256, 64), generated(256, 256, work), steps=FEW)


@profile
def jax_readback(folder: Path) -> None:
    """A callback reads a layer's weights in every step, value by value."""
    import keras

    class Watch(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            sum(float(value) for value in self.model.layers[-1].bias.value.repeat(3))

    fitted(folder, dense(256, 384), generated(64, 256), Watch(), steps=2)


def step_of(*, compiled: bool) -> Callable[[Any, Any], Any]:
    """A training step of a linear model, in JAX alone."""
    import jax
    import jax.numpy as jnp

    def train_step(weights: Any, x: Any) -> Any:
        gradient = jax.grad(lambda w: jnp.mean(jnp.tanh(x @ w) ** 2))(weights)
        return weights - 0.01 * gradient

    return jax.jit(train_step) if compiled else train_step


@profile
def jax_retracing(folder: Path) -> None:
    """A jitted step is given another shape each time."""
    import jax.numpy as jnp

    step, (x, _) = step_of(compiled=True), arrays(64, 32)
    weights = jnp.asarray(arrays(32, 32)[0])
    batches = [jnp.asarray(x[: 16 + i]) for i in range(WARMUP + STEPS + 2)]
    profiled(folder, lambda i: step(weights, batches[i]).block_until_ready(), steps=STEPS + 2, frames=False)


@profile
def jax_eager(folder: Path) -> None:
    """The step without jax.jit: every operation is started by itself."""
    import jax.numpy as jnp

    step = step_of(compiled=False)
    weights, x = jnp.asarray(arrays(32, 32)[0]), jnp.asarray(arrays(64, 32)[0])
    profiled(folder, lambda _: step(weights, x).block_until_ready(), frames=False)


@profile
def jax_one_shape(folder: Path) -> None:
    """The pair of it: one shape, and larger products."""
    import jax.numpy as jnp

    step = step_of(compiled=True)
    weights, x = (jnp.asarray(arrays(1024, 1024)[0]) for _ in range(2))
    profiled(folder, lambda _: step(weights, x).block_until_ready(), frames=False)


def main(arguments: list[str]) -> None:
    if arguments == ["--list"]:
        print("\n".join(PROFILES))
        return
    name, folder = arguments
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    os.environ["KERAS_BACKEND"] = "jax" if name.startswith("jax") else "tensorflow"
    PROFILES[name](Path(folder))


if __name__ == "__main__":
    main(sys.argv[1:])
