"""What colour will the glaze have? Oxide shares and kiln programme to CIE Lab, with a mixture of experts."""
import time

import numpy as np
import tensorflow as tf
from tensorflow import keras

tf.config.run_functions_eagerly(True)

OXIDES, EXPERTS = 18, 4
BATCH, STEPS = 256, 110


def firings(n):
    rng = np.random.default_rng(44)
    share = rng.dirichlet(np.ones(OXIDES), size=n)
    peak = rng.uniform(1000, 1300, size=(n, 1)) / 1300
    hold = rng.uniform(0, 1, size=(n, 1))
    x = np.concatenate([share * 5, peak, hold], 1)
    mix = rng.normal(size=(x.shape[1], 3))
    lab = np.tanh(x @ mix) + 0.2 * np.sin(4 * share[:, :3] * peak)
    return x.astype("float32"), lab.astype("float32")


class Expert(keras.layers.Layer):
    def __init__(self, units):
        super().__init__()
        self.inner = [keras.layers.Dense(units, activation="relu") for _ in range(3)]
        self.norm = keras.layers.LayerNormalization()
        self.out = keras.layers.Dense(3)

    def call(self, x):
        h = self.inner[0](x)
        h = h + self.inner[1](h)
        h = h + self.inner[2](h)
        return self.out(self.norm(h))


class GlazeMixture(keras.Model):
    def __init__(self):
        super().__init__()
        self.experts = [Expert(64) for _ in range(EXPERTS)]
        self.gate = keras.layers.Dense(EXPERTS, activation="softmax")

    def call(self, x):
        gate = self.gate(x)
        parts = tf.stack([expert(x) for expert in self.experts], axis=1)
        return tf.reduce_sum(gate[:, :, None] * parts, axis=1), gate


x, lab = firings(20000)
batches = iter(tf.data.Dataset.from_tensor_slices((x, lab)).shuffle(20000).repeat().batch(BATCH).prefetch(2))
model = GlazeMixture()
optimizer = keras.optimizers.AdamW(1e-3, weight_decay=1e-4)


@tf.function
def fire(xb, target):
    with tf.GradientTape() as tape:
        colour, gate = model(xb, training=True)
        delta = tf.sqrt(tf.reduce_sum(tf.square(colour - target), -1) + 1e-6)
        balance = tf.reduce_sum(tf.square(tf.reduce_mean(gate, 0))) * EXPERTS
        loss = tf.reduce_mean(delta) + 0.01 * balance
    grads = tape.gradient(loss, model.trainable_variables)
    grads, _ = tf.clip_by_global_norm(grads, 1.0)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
    return loss


start = time.perf_counter()
for step in range(STEPS):
    loss = fire(*next(batches))
    if step % 25 == 0:
        print(f"step {step:4d}   delta E {float(loss):.4f}")
print("WORK", STEPS * BATCH)
print("TRAIN_SECONDS %.3f" % (time.perf_counter() - start))
