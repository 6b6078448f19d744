"""Tells healthy from worn cuckoo clocks by their ticking.

Training has two phases (a warm-up without augmentation, then the rest), told apart by a plain Python word.
"""

import time

import numpy as np
import tensorflow as tf

CLOCKS, TICKS, BATCH = 4096, 256, 64


def ticking(seed):
    rng = np.random.default_rng(seed)
    worn = rng.integers(2, size=CLOCKS)
    gap = 1.0 + rng.normal(0, 0.01, (CLOCKS, TICKS))
    limp = 0.03 * worn[:, None] * np.sign(np.sin(np.arange(TICKS) * np.pi / rng.uniform(2, 5, (CLOCKS, 1))))
    loud = rng.uniform(0.5, 1, (CLOCKS, 1)) * (1 + rng.normal(0, 0.1, (CLOCKS, TICKS)))
    return np.stack([gap + limp - 1.0, loud], -1).astype("float32"), worn.astype("int32")


class Attend(tf.keras.layers.Layer):
    def __init__(self, width, heads):
        super().__init__()
        self.attention = tf.keras.layers.MultiHeadAttention(heads, width // heads)
        self.mlp = tf.keras.Sequential(
            [tf.keras.layers.Dense(2 * width, activation="gelu"), tf.keras.layers.Dense(width)]
        )
        self.norms = [tf.keras.layers.LayerNormalization() for _ in range(2)]

    def call(self, x):
        y = self.norms[0](x)
        x = x + self.attention(y, y)
        return x + self.mlp(self.norms[1](x))


class Clockmaker(tf.keras.Model):
    def __init__(self, width=64, depth=2):
        super().__init__()
        self.patch = tf.keras.layers.Conv1D(width, 8, strides=4, padding="same")
        self.blocks = [Attend(width, 4) for _ in range(depth)]
        self.head = tf.keras.layers.Dense(2)

    def call(self, x):
        x = self.patch(x)
        for block in self.blocks:
            x = block(x)
        return self.head(tf.reduce_mean(x, 1))


model = Clockmaker()
optimizer = tf.keras.optimizers.Adam(learning_rate=1e-3)
criterion = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function
def train_step(ticks, worn, phase):
    if phase == "full":
        ticks = ticks + tf.random.normal(tf.shape(ticks), stddev=0.003)
    with tf.GradientTape() as tape:
        loss = criterion(worn, model(ticks, training=True))
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
    return loss


def run(data, epochs):
    for epoch in range(epochs):
        phase = "warm-up" if epoch < 1 else "full"
        optimizer.learning_rate.assign(1e-3 * min(1.0, (epoch + 1) / 2))
        began, losses = time.perf_counter(), []
        for ticks, worn in data:
            losses.append(train_step(ticks, worn, phase))
        mean = float(tf.reduce_mean(tf.stack(losses)))
        took = time.perf_counter() - began
        print(f"epoch {epoch} ({phase}): loss {mean:.4f}, {took:.2f} s, {took / len(losses) * 1e3:.1f} ms a step")


if __name__ == "__main__":
    tf.keras.utils.set_random_seed(60)
    ticks, worn = ticking(60)
    data = tf.data.Dataset.from_tensor_slices((ticks, worn)).shuffle(CLOCKS, seed=2)
    data = data.batch(BATCH, drop_remainder=True).prefetch(tf.data.AUTOTUNE)
    began = time.perf_counter()
    run(data, epochs=4)
    print(f"trained in {time.perf_counter() - began:.2f} s")
