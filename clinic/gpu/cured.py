"""What the cures of small_table.py and photo_augment.py give on this machine: ms a step, before and after.

    KERAS_BACKEND=jax python clinic/gpu/cured.py
"""

import time

import jax
import keras
import numpy as np

rng = np.random.default_rng(0)


def timed(run, steps):
    """The median of some runs of so many steps, after one that compiles."""
    run()
    took = []
    for _ in range(5):
        begun = time.perf_counter()
        run()
        took.append((time.perf_counter() - begun) / steps)
    return 1e3 * sorted(took)[len(took) // 2]


def table():
    """A fit of 400 small steps, and the same steps as one jax.lax.scan."""
    x = rng.random((6400, 12), dtype="float32")
    y = (x @ rng.random((12, 1))).astype("float32")
    layers = [keras.layers.Dense(32, activation="relu"), keras.layers.Dense(1)]
    model = keras.Sequential([keras.layers.Input((12,)), *layers])
    model.compile("adam", "mse")
    print("small_table, fit", timed(lambda: model.fit(x, y, batch_size=16, verbose=0), 400))
    loss_of = keras.losses.MeanSquaredError()
    fixed = [v.value for v in model.non_trainable_variables]

    def one(state, batch):
        weights, slots = state

        def loss(weights):
            return loss_of(batch[1], model.stateless_call(weights, fixed, batch[0], training=True)[0])

        value, gradient = jax.value_and_grad(loss)(weights)
        weights, slots = model.optimizer.stateless_apply(slots, gradient, weights)
        return (weights, slots), value

    epoch = jax.jit(lambda state, data: jax.lax.scan(one, state, data))
    state = [v.value for v in model.trainable_variables], [v.value for v in model.optimizer.variables]
    data = x.reshape(400, 16, 12), y.reshape(400, 16, 1)
    print("small_table, scan", timed(lambda: jax.block_until_ready(epoch(state, data)), 400))


class Photos(keras.utils.PyDataset):
    def __init__(self, ready, **options):
        super().__init__(**options)
        self.ready = ready
        self.x, self.y = rng.random((4000, 96, 96, 3), dtype="float32"), rng.integers(0, 5, 4000)

    def __len__(self):
        return 62

    def augment(self, picture):
        picture = np.rot90(picture, np.random.randint(4))
        picture = np.clip(picture * np.random.uniform(0.8, 1.2) + np.random.uniform(-0.1, 0.1), 0, 1)
        return np.roll(picture, np.random.randint(8), axis=1)

    def __getitem__(self, index):
        at = slice(64 * index, 64 * (index + 1))
        return (self.x[at] if self.ready else np.stack([self.augment(p) for p in self.x[at]])), self.y[at]


def photos():
    """Augmented one by one, in threads, and not at all."""
    for name, given in (
        ("one by one", Photos(False)), ("in 8 threads", Photos(False, workers=8)), ("ready", Photos(True))
    ):  # fmt: skip
        layers = []
        for filters in (32, 64, 128):
            layers += [keras.layers.Conv2D(filters, 3, strides=2, padding="same", activation="relu")]
            layers += [keras.layers.BatchNormalization()]
        last = [keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(5)]
        model = keras.Sequential([keras.layers.Input((96, 96, 3)), *layers, *last])
        model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        print(f"photo_augment, {name}", timed(lambda m=model, g=given: m.fit(g, verbose=0), 62))


table()
photos()
