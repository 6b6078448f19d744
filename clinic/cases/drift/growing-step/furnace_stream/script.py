"""Online autoencoder of furnace sensors, standardised by what was seen so far."""
import time

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(87)
SENSORS, CHUNK, STEPS = 96, 512, 260


class Scaler:
    def __init__(self):
        self.seen = None

    def update(self, chunk):
        self.seen = chunk if self.seen is None else np.concatenate([self.seen, chunk])

    def transform(self, chunk):
        mean = self.seen.mean(axis=0)
        std = self.seen.std(axis=0) + 1e-6
        return ((chunk - mean) / std).astype("float32")


def stream():
    rng = np.random.default_rng(87)
    mix = rng.normal(size=(6, SENSORS))
    for k in range(STEPS):
        drift = 0.01 * k
        yield (rng.normal(drift, 1.0, (CHUNK, 6)) @ mix).astype("float32")


auto = tf.keras.Sequential([
    tf.keras.Input((SENSORS,)),
    tf.keras.layers.Dense(64, activation="relu"),
    tf.keras.layers.Dense(6),
    tf.keras.layers.Dense(64, activation="relu"),
    tf.keras.layers.Dense(SENSORS),
])
opt = tf.keras.optimizers.Adam(1e-3)


@tf.function(input_signature=[tf.TensorSpec((CHUNK, SENSORS), tf.float32)])
def learn(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(auto(x, training=True) - x))
    grads = tape.gradient(loss, auto.trainable_variables)
    opt.apply_gradients(zip(grads, auto.trainable_variables))
    return loss


scaler = Scaler()
t0 = time.time()
for k, chunk in enumerate(stream()):
    scaler.update(chunk)
    loss = learn(tf.constant(scaler.transform(chunk)))
    if (k + 1) % 30 == 0:
        print(k + 1, round(float(loss), 4), "%.1fs" % (time.time() - t0))
