"""Soft sensor of a copper smelter: matte grade from the plant's gauges. A deep residual MLP with close monitoring."""
import time
import numpy as np
import tensorflow as tf
import keras
from keras import layers

keras.utils.set_random_seed(29)
rng = np.random.default_rng(29)

x = rng.normal(size=(8000, 40)).astype("float32")
y = (np.sin(x[:, :4]).sum(1, keepdims=True) + 0.1 * rng.normal(size=(8000, 1))).astype("float32")


def sensor(depth=8, width=64):
    inp = keras.Input((40,))
    h = layers.Dense(width)(inp)
    for k in range(depth):
        r = layers.LayerNormalization(name=f"norm{k}")(h)
        r = layers.Dense(width, activation="gelu", name=f"in{k}")(r)
        h = layers.Add()([h, layers.Dense(width, name=f"out{k}")(r)])
    return keras.Model(inp, layers.Dense(1)(h))


class Monitor:
    """Keeps an eye on vanishing and exploding layers."""

    def __init__(self, variables):
        self.names = [v.path for v in variables]
        self.rows = []

    def note(self, step, loss, grads):
        row = {"step": step, "loss": float(loss)}
        for name, g in zip(self.names, grads):
            row[name + "/norm"] = float(tf.norm(g))
            row[name + "/max"] = float(tf.reduce_max(tf.abs(g)))
        self.rows.append(row)

    def worst(self):
        last = self.rows[-1]
        return max((v, k) for k, v in last.items() if k.endswith("/norm"))


model = sensor()
optimizer = keras.optimizers.Adam(1e-3)
monitor = Monitor(model.trainable_variables)


@tf.function
def train_step(xb, yb):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(xb, training=True) - yb) ** 2)
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
    return loss, grads


ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(8000, seed=4).batch(64, drop_remainder=True).prefetch(2)
step, t0 = 0, time.time()
for epoch in range(6):
    for xb, yb in ds:
        loss, grads = train_step(xb, yb)
        monitor.note(step, loss, grads)
        step += 1
    print(epoch, float(loss), monitor.worst(), f"{time.time() - t0:.1f} s")
