"""What cures give on this card: variants in turns, unprofiled, in one process.

    python clinic/gpu_bench/cures.py [--small] [SCENARIO …]

Each scenario makes its variants, warms each up, then times them in turns. Prints one line of JSON after ``RESULT`` for
each scenario as it goes: milliseconds a step by variant in each round, their median, and the seconds of the first call.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

SMALL = False
DEVICE = "/GPU:0" if tf.config.list_physical_devices("GPU") else "/CPU:0"
ROUNDS = 3
L, M = tf.keras.layers, tf.keras
CE = M.losses.SparseCategoricalCrossentropy(from_logits=True)
rng = np.random.default_rng(0)
Variant = Callable[[], tuple[Callable[[], Any], int]]  # makes what runs some steps, and says how many
Scenario = Callable[[], dict[str, Variant]]


def measure(variants: dict[str, Variant]) -> dict[str, dict[str, Any]]:
    ready, rows = {}, {}
    for name, prepare in variants.items():
        try:
            begun = time.perf_counter()
            run, steps = prepare()
            run()
            rows[name] = {"first_s": round(time.perf_counter() - begun, 2), "ms": []}
            run()
            ready[name] = (run, steps)
        except Exception as error:  # noqa: BLE001  the other variants tell something without it
            rows[name] = {"error": f"{type(error).__name__}: {str(error)[:160]}"}
    for _ in range(ROUNDS):
        for name, (run, steps) in ready.items():
            begun = time.perf_counter()
            run()
            rows[name]["ms"].append(round(1e3 * (time.perf_counter() - begun) / steps, 4))
    for row in rows.values():
        if row.get("ms"):
            row["median_ms"] = round(statistics.median(row["ms"]), 4)
    return rows


def fit(make_model: Callable[[], Any], data: Any, steps: int, **compiling: Any) -> Variant:
    def prepare() -> tuple[Callable[[], Any], int]:
        model = make_model()
        model.compile(**{"optimizer": "adam", "loss": CE, **compiling})
        repeated = data.repeat()
        return lambda: model.fit(repeated, steps_per_epoch=steps, epochs=1, verbose=0), steps

    return prepare


def train_on_batch(make_model: Callable[[], Any], data: Any, steps: int, loss: Any) -> Variant:
    def prepare() -> tuple[Callable[[], Any], int]:
        model = make_model()
        model.compile("adam", loss)
        source = iter(data.repeat())

        def run() -> None:
            for _ in range(steps):
                model.train_on_batch(*next(source))

        return run, steps

    return prepare


def slices(*arrays: Any, batch: int) -> Any:
    data = tf.data.Dataset.from_tensor_slices(arrays if len(arrays) > 1 else arrays[0])
    return data.batch(batch, drop_remainder=True).cache().prefetch(2)


def wide_input() -> dict[str, Variant]:
    count, side, batch, steps = (256, 64, 32, 8) if SMALL else (1024, 224, 128, 30)
    raw = rng.integers(0, 256, (count, side, side, 3), dtype=np.uint8)
    labels = rng.integers(0, 5, count)
    wide = (raw / 255.0).astype("float32")

    def convnet(scaled: bool = False) -> Any:
        head = [M.Input((side, side, 3))]
        if scaled:
            head = [M.Input((side, side, 3), dtype="uint8"), L.Rescaling(1 / 255.0)]
        body = [L.Conv2D(16, 7, strides=4, activation="relu"), L.MaxPooling2D(2), L.Conv2D(32, 3, activation="relu")]
        return M.Sequential([*head, *body, L.GlobalAveragePooling2D(), L.Dense(5)])

    host = slices(wide, labels, batch=batch)
    mapped = tf.data.Dataset.from_tensor_slices((wide, labels)).repeat()
    mapped = mapped.map(lambda a, b: (a, b), num_parallel_calls=tf.data.AUTOTUNE).batch(batch, drop_remainder=True)
    ahead = host.repeat().apply(tf.data.experimental.prefetch_to_device(DEVICE, 2))
    return {
        "float32": fit(convnet, host, steps),
        "uint8, scaled on the device": fit(lambda: convnet(True), slices(raw, labels, batch=batch), steps),
        "parallel map and batch (pinned)": fit(convnet, mapped.prefetch(2), steps),
        "float32, no XLA": fit(convnet, host, steps, jit_compile=False),
        "train_on_batch": train_on_batch(convnet, host, steps, CE),
        "train_on_batch, prefetch_to_device": _over(convnet, ahead, steps),
    }


def _over(make_model: Callable[[], Any], ahead: Any, steps: int) -> Variant:
    """``train_on_batch`` over a data set whose last stage has to stay the last."""

    def prepare() -> tuple[Callable[[], Any], int]:
        model = make_model()
        model.compile("adam", CE)
        source = iter(ahead)

        def run() -> None:
            for _ in range(steps):
                model.train_on_batch(*next(source))

        return run, steps

    return prepare


def precision() -> dict[str, Variant]:
    side, batch, steps = (32, 8, 2) if SMALL else (160, 128, 12)
    data = slices(rng.random((4 * batch, side, side, 3), dtype="float32"), rng.integers(0, 10, 4 * batch), batch=batch)

    def resnet(policy: str) -> Callable[[], Any]:
        def make() -> Any:
            M.mixed_precision.set_global_policy(policy)
            net = M.applications.MobileNetV2 if SMALL else M.applications.ResNet50
            model = net(weights=None, input_shape=(side, side, 3), classes=10)
            M.mixed_precision.set_global_policy("float32")
            return model

        return make

    # Without XLA, whose compilation of this model takes a minute; the loss takes probabilities.
    how = {"optimizer": "sgd", "loss": "sparse_categorical_crossentropy", "jit_compile": False}
    policies = ("float32", "mixed_bfloat16", *(() if SMALL else ("mixed_float16",)))  # a CPU takes minutes for the last
    return {policy: fit(resnet(policy), data, steps, **how) for policy in policies}


def small_dense() -> dict[str, Variant]:
    steps = 100 if SMALL else 400
    data = slices(rng.random((8192, 32), dtype="float32"), rng.random(8192, dtype="float32"), batch=32)

    def dense() -> Any:
        hidden = [L.Dense(64, activation="relu") for _ in range(6)]
        return M.Sequential([M.Input((32,)), *hidden, L.Dense(1)])

    found = {f"{k} steps a call": fit(dense, data, steps, loss="mse", steps_per_execution=k) for k in (1, 10, 50)}
    for k in (1, 50):
        found[f"{k} steps a call, no XLA"] = fit(
            dense, data, steps, loss="mse", steps_per_execution=k, jit_compile=False
        )
    return found


def loop_by_hand() -> dict[str, Variant]:
    total, together = (20, 10) if SMALL else (300, 50)
    data = slices(rng.random((16384, 512), dtype="float32"), rng.integers(0, 10, 16384), batch=256).repeat()

    def by_hand(jit: bool | None = None, read: bool = True, inner: int = 1, eager: bool = False) -> Variant:
        def prepare() -> tuple[Callable[[], Any], int]:
            step, source = _step_by_hand(), iter(data)
            steps = total // 10 if eager else total
            if inner > 1:
                many = _many_in_one(step, source, inner)
                return (lambda: [float(many()) for _ in range(total // inner)]), total
            function = step if eager else tf.function(step, jit_compile=jit)

            def run() -> None:
                loss = None
                for _ in range(steps):
                    loss = function(*next(source))
                    if read:
                        float(loss)
                float(loss)

            return run, steps

        return prepare

    return {
        "tf.function, loss read": by_hand(),
        "tf.function": by_hand(read=False),
        "XLA, loss read": by_hand(jit=True),
        "XLA": by_hand(jit=True, read=False),
        f"{together} steps in a function": by_hand(inner=together),
        "eager": by_hand(eager=True),
    }


def _step_by_hand() -> Callable[..., Any]:
    model = M.Sequential([M.Input((512,)), *[L.Dense(1024, activation="relu") for _ in range(2)], L.Dense(10)])
    optimizer = M.optimizers.Adam(1e-3)
    optimizer.build(model.trainable_variables)

    def step(a: Any, b: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = CE(b, model(a, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    return step


def _many_in_one(step: Callable[..., Any], source: Any, inner: int) -> Any:
    @tf.function
    def many() -> Any:
        loss = tf.zeros(())
        for _ in tf.range(inner):
            loss = step(*next(source))
        return loss

    return many


def on_batch() -> dict[str, Variant]:
    x, y = rng.random((20480, 256), dtype="float32"), rng.random((20480, 10), dtype="float32")
    rows = tf.data.Dataset.from_tensor_slices((x, y))
    by_row = rows.shuffle(1000).batch(512, drop_remainder=True).prefetch(2)
    by_batch = rows.batch(512, drop_remainder=True).shuffle(40).prefetch(2)

    def net() -> Any:
        return M.Sequential([M.Input((256,)), L.Dense(512, activation="relu"), L.Dense(10)])

    return {
        "train_on_batch": train_on_batch(net, by_row, 80, "mse"),
        "fit": fit(net, by_row, 80, loss="mse"),
        "fit, 40 steps a call": fit(net, by_row, 80, loss="mse", steps_per_execution=40),
        "the same, batch before shuffle": fit(net, by_batch, 80, loss="mse", steps_per_execution=40),
    }


def recurrent() -> dict[str, Variant]:
    steps = 4 if SMALL else 10
    data = slices(rng.random((1024, 60, 16), dtype="float32"), rng.random((1024, 1), dtype="float32"), batch=128)

    def lstm(dropped: float) -> Callable[[], Any]:
        def make() -> Any:
            first = L.LSTM(128, return_sequences=True, recurrent_dropout=dropped)
            return M.Sequential([M.Input((60, 16)), first, L.LSTM(64, recurrent_dropout=dropped), L.Dense(1)])

        return make

    return {
        "recurrent_dropout": fit(lstm(0.1), data, steps, loss="mse", jit_compile=False),
        "cuDNN": fit(lstm(0.0), data, steps, loss="mse", jit_compile=False),
        "as Keras compiles it": fit(lstm(0.0), data, steps, loss="mse"),
    }


def host_op() -> dict[str, Variant]:
    data = slices(rng.random((8192, 256), dtype="float32"), batch=128).repeat()

    def by(kind: str) -> Variant:
        def prepare() -> tuple[Callable[[], Any], int]:
            model = M.Sequential([M.Input((256,)), L.Dense(1024, activation="relu"), L.Dense(64)])
            source = iter(data)
            steps = {k: _eigen_step(model, k) for k in (kind, "none")}
            rounds = 20 if SMALL else 100
            every = 10 if kind == "eigvals, each 10th" else 1

            def run() -> None:
                for i in range(rounds):
                    loss = steps[kind if i % every == 0 else "none"](next(source))
                float(loss)

            return run, rounds

        return prepare

    return {k: by(k) for k in ("eigvals", "eigvals, each 10th", "eigvalsh", "none")}


def _eigen_step(model: Any, kind: str) -> Any:
    op = {"eigvalsh": tf.linalg.eigvalsh, "none": None}.get(kind, tf.linalg.eigvals)

    @tf.function
    def step(a: Any) -> Any:
        with tf.GradientTape() as tape:
            z = model(a, training=True)
            loss = tf.reduce_mean(tf.square(z))
        extra = tf.reduce_max(tf.abs(op(tf.matmul(z, z, transpose_a=True) / 128.0))) if op else 0.0
        for v, g in zip(model.trainable_variables, tape.gradient(loss, model.trainable_variables), strict=True):
            v.assign_sub(1e-3 * g)
        return loss + extra

    return step


def tables() -> dict[str, Variant]:
    words = 20_000 if SMALL else 500_000
    users, items = rng.integers(0, words, (2, 40_960))
    clicks = rng.integers(0, 2, 40_960).astype("float32")
    data = tf.data.Dataset.from_tensor_slices(((users, items), clicks)).batch(1024, drop_remainder=True)
    data = data.cache().prefetch(4)

    def towers() -> Any:
        u, i = M.Input((), dtype="int32"), M.Input((), dtype="int32")
        joined = L.Concatenate()([L.Embedding(words, 64)(u), L.Embedding(words, 64)(i)])
        return M.Model([u, i], L.Dense(1)(L.Dense(64, activation="relu")(joined)))

    loss = M.losses.BinaryCrossentropy(from_logits=True)
    return {o: fit(towers, data, 40, optimizer=o, loss=loss) for o in ("adam", "sgd", "adagrad")}


class LoopConv(L.Layer):
    """A convolution as two Python loops."""

    def build(self, shape: Any) -> None:
        self.kernel = self.add_weight(shape=(25 * shape[-1], 16), initializer="glorot_uniform")

    def call(self, x: Any) -> Any:
        rows = []
        for i in range(x.shape[1] - 4):
            cells = [tf.reshape(x[:, i : i + 5, j : j + 5, :], (-1, 75)) for j in range(x.shape[2] - 4)]
            rows.append(tf.stack([tf.matmul(cell, self.kernel) for cell in cells], 1))
        return tf.nn.relu(tf.stack(rows, 1))


def handwritten() -> dict[str, Variant]:
    side = 8 if SMALL else 16
    data = slices(rng.random((1024, side, side, 3), dtype="float32"), rng.integers(0, 4, 1024), batch=32)

    def net(layer: Callable[[], Any]) -> Callable[[], Any]:
        return lambda: M.Sequential([M.Input((side, side, 3)), layer(), L.GlobalAveragePooling2D(), L.Dense(4)])

    def library() -> Any:
        return L.Conv2D(16, 5, activation="relu", use_bias=False)

    steps = 20 if SMALL else 100
    return {
        "loops": fit(net(LoopConv), data, steps),
        "Conv2D": fit(net(library), data, steps),
        "Conv2D, no XLA": fit(net(library), data, steps, jit_compile=False),
    }


# In the order of what is least known.
SCENARIOS: dict[str, Scenario] = {
    "wide_input": wide_input, "small_dense": small_dense, "loop_by_hand": loop_by_hand, "handwritten": handwritten,
    "host_op": host_op, "on_batch": on_batch, "tables": tables, "precision": precision, "recurrent": recurrent,
}  # fmt: skip


def main() -> None:
    global SMALL  # noqa: PLW0603  each scenario asks it
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="sizes for a CPU")
    parser.add_argument("scenarios", nargs="*", help=", ".join(SCENARIOS))
    given = parser.parse_args()
    SMALL = given.small
    for name in given.scenarios or SCENARIOS:
        begun = time.perf_counter()
        try:
            found: dict[str, Any] = {"variants": measure(SCENARIOS[name]())}
        except Exception as error:  # noqa: BLE001  the other scenarios tell something without it
            found = {"error": f"{type(error).__name__}: {str(error)[:160]}"}
        print("RESULT", json.dumps({"item": f"cures:{name}", **found, "s": time.perf_counter() - begun}), flush=True)


if __name__ == "__main__":
    main()
