"""Glacier facies from radar tiles; the tiles sit in an object store."""
import time

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(5)


class TileStore:
    """Stand-in for the bucket client: one request brings one batch of tiles."""

    def __init__(self, n_batches, batch, size, latency=0.030):
        rng = np.random.default_rng(5)
        self.tiles = rng.normal(0, 1, (n_batches, batch, size, size, 2)).astype("float32")
        self.facies = rng.integers(0, 6, (n_batches, batch)).astype("int32")
        self.tiles[..., 0] += self.facies[..., None, None] * 0.3
        self.latency = latency

    def get(self, key):
        time.sleep(self.latency)
        return self.tiles[key], self.facies[key]


store = TileStore(n_batches=40, batch=16, size=48)


def fetch(key):
    x, y = tf.numpy_function(store.get, [key], (tf.float32, tf.int32))
    x.set_shape([16, 48, 48, 2])
    y.set_shape([16])
    return x, y


train = tf.data.Dataset.range(40).shuffle(40, seed=1).repeat(5).map(fetch)

model = tf.keras.Sequential([
    tf.keras.layers.Input((48, 48, 2)),
    tf.keras.layers.Conv2D(24, 3, activation="relu"),
    tf.keras.layers.Conv2D(24, 3, strides=2, activation="relu"),
    tf.keras.layers.Conv2D(48, 3, activation="relu"),
    tf.keras.layers.GlobalAveragePooling2D(),
    tf.keras.layers.Dense(6),
])
optimizer = tf.keras.optimizers.Adam(1e-3)
loss_fn = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
running = tf.keras.metrics.Mean()


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = loss_fn(y, model(x, training=True))
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
    running.update_state(loss)


for step, (x, y) in enumerate(train):
    train_step(x, y)
    if step % 40 == 39:
        print(step + 1, "loss", float(running.result()))
        running.reset_state()
