"""Takings of market stalls: one model goes from town to town, a few steps in each."""
import time

import numpy as np
import tensorflow as tf

keras = tf.keras
TOWNS = 18
STEPS_PER_TOWN = 8
BATCH = 64
FEATURES = 20


class Town:
    def __init__(self, number):
        rng = np.random.default_rng(number)
        self.x = rng.normal(size=(BATCH * STEPS_PER_TOWN, FEATURES)).astype("float32")
        slope = np.sin(np.arange(FEATURES) + 0.1 * number).astype("float32")
        noise = rng.normal(0, 0.1, len(self.x)).astype("float32")
        self.y = (np.tanh(self.x @ slope) + noise)[:, None].astype("float32")

    def batches(self):
        return (tf.data.Dataset.from_tensor_slices((self.x, self.y))
                .batch(BATCH, drop_remainder=True)
                .prefetch(2))


def make_model():
    inp = keras.Input((FEATURES,))
    h = keras.layers.Dense(96, activation="gelu")(inp)
    for _ in range(3):
        r = keras.layers.Dense(96, activation="gelu")(h)
        r = keras.layers.LayerNormalization()(r)
        h = keras.layers.Add()([h, r])
    return keras.Model(inp, keras.layers.Dense(1)(h))


class Trainer:
    def __init__(self):
        self.model = make_model()
        self.optimizer = keras.optimizers.Adam(1e-3)
        self.optimizer.build(self.model.trainable_variables)
        self.loss_fn = keras.losses.Huber()

    def train_step(self, x, y):
        with tf.GradientTape() as tape:
            loss = self.loss_fn(y, self.model(x, training=True))
        grads = tape.gradient(loss, self.model.trainable_variables)
        grads, _ = tf.clip_by_global_norm(grads, 1.0)
        self.optimizer.apply_gradients(zip(grads, self.model.trainable_variables))
        return loss

    def visit(self, town):
        step = tf.function(self.train_step)
        total = 0.0
        for x, y in town.batches():
            total += step(x, y)
        return float(total) / STEPS_PER_TOWN


tf.random.set_seed(3)
trainer = Trainer()
towns = [Town(n) for n in range(TOWNS)]
begin = time.perf_counter()
for n, town in enumerate(towns):
    loss = trainer.visit(town)
    if n % 6 == 0:
        print(f"town {n:3d}  loss {loss:.4f}")
print(f"seen {TOWNS} towns in {time.perf_counter() - begin:.1f} s")
