"""Arrhenius rates of a reactor as a surrogate net. The table is solved in float64, the net is float32."""
import time
import numpy as np
import tensorflow as tf
import keras
from keras import layers

keras.utils.set_random_seed(73)
rng = np.random.default_rng(73)

RUNS, SPECIES = 20000, 16

start = time.time()
theta = tf.constant(rng.uniform(0.5, 1.5, (RUNS, SPECIES)), tf.float64)
system = tf.linalg.diag(theta) + 0.05 * tf.random.stateless_normal((RUNS, SPECIES, SPECIES), (1, 2), dtype=tf.float64)
steady = tf.linalg.solve(system, tf.ones((RUNS, SPECIES, 1), tf.float64))[..., 0]
x = tf.cast(tf.concat([theta, tf.reshape(system, (RUNS, -1))], 1), tf.float32).numpy()
y = tf.cast(steady, tf.float32).numpy()
y = np.clip(y, -5, 5)
print(f"table of {RUNS} runs solved after {time.time() - start:.1f} s")


class Surrogate(keras.Model):
    def __init__(self, width=512):
        super().__init__()
        self.first = layers.Dense(width, activation="swish")
        self.blocks = [layers.Dense(width, activation="swish") for _ in range(3)]
        self.last = layers.Dense(SPECIES)

    def call(self, x):
        h = self.first(x)
        for block in self.blocks:
            h = h + block(h)
        return self.last(h)


model = Surrogate()
model.compile(optimizer=keras.optimizers.Adam(1e-3), loss="mae")
model.fit(x, y, batch_size=256, epochs=4, verbose=2)
residual = tf.einsum("bij,bj->bi", system[:2000], tf.cast(model(x[:2000]), tf.float64)) - 1.0
print("residual of the balance", float(tf.sqrt(tf.reduce_mean(residual ** 2))))
