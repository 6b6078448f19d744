import contextlib

import numpy as np
import tensorflow as tf
import keras

keras.utils.set_random_seed(3)


def accords(count=6400, notes=80):
    rng = np.random.default_rng(3)
    blends = rng.random((count, notes), dtype=np.float32)
    character = (blends @ rng.normal(size=(notes, 12)).astype(np.float32)).argmax(axis=1)
    return blends, character.astype(np.int32)


def build_nose(notes, depth=24):
    blend = keras.Input((notes,))
    x = keras.layers.Dense(64, activation="swish")(blend)
    for _ in range(depth):
        x = x + keras.layers.Dense(64, activation="swish")(x) * 0.2
    return keras.Model(blend, keras.layers.Dense(12)(x))


class Sillage:
    """The strength of every gradient, as a table with one row per step."""

    def __init__(self, model):
        self.names = [variable.path for variable in model.trainable_variables]
        self.rows = []

    @contextlib.contextmanager
    def trail(self):
        caught = []
        yield caught
        row = {name: float(tf.norm(grad)) for name, grad in zip(self.names, caught)}
        row["total"] = sum(value ** 2 for value in row.values()) ** 0.5
        self.rows.append(row)


blends, character = accords()
nose = build_nose(blends.shape[1])
optimizer = keras.optimizers.SGD(0.05)
cross = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function(reduce_retracing=True)
def blend_step(x, y):
    with tf.GradientTape() as tape:
        loss = cross(y, nose(x, training=True))
    grads = tape.gradient(loss, nose.trainable_variables)
    optimizer.apply_gradients(zip(grads, nose.trainable_variables))
    return loss, grads


stream = (tf.data.Dataset.from_tensor_slices((blends, character))
          .batch(32, drop_remainder=True).cache().prefetch(2))
sillage = Sillage(nose)
for epoch in range(5):
    for x, y in stream:
        with sillage.trail() as caught:
            loss, grads = blend_step(x, y)
            caught.extend(grads)
    print(epoch, round(sillage.rows[-1]["total"], 3), float(loss))
