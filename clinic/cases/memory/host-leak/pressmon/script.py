"""Autoencoder of force/temperature windows of a stamping press, with a moving control limit for the residual."""
import time

import numpy as np
import tensorflow as tf
import keras

CHANNELS, WINDOW = 8, 64
FEATURES = CHANNELS * WINDOW
BATCH, EPOCHS, STROKES = 256, 5, 12_288


def make_strokes(n, seed):
    rng = np.random.default_rng(seed)
    t = np.linspace(0, 1, WINDOW, dtype="float32")
    phase = rng.uniform(0.2, 0.6, (n, CHANNELS, 1)).astype("float32")
    width = rng.uniform(0.03, 0.1, (n, CHANNELS, 1)).astype("float32")
    gain = rng.gamma(4.0, 0.25, (n, CHANNELS, 1)).astype("float32")
    curves = gain * np.exp(-(((t - phase) / width) ** 2))
    curves += 0.02 * rng.standard_normal(curves.shape, dtype="float32")
    return curves.reshape(n, FEATURES)


class ControlLimit:
    """mean + k sigma of the residual over the latest batches, per feature"""

    def __init__(self, latest=8, k=3.0):
        self.latest, self.k = latest, k
        self.residuals = []
        self.limit = np.full(FEATURES, np.inf, "float32")

    def add(self, residual):
        self.residuals.append(residual)
        seen = np.concatenate(self.residuals, axis=0)
        recent = seen[-self.latest * BATCH:]
        self.limit = recent.mean(axis=0) + self.k * recent.std(axis=0)

    def alarms(self, residual):
        return int((residual > self.limit).any(axis=1).sum())


def build():
    inp = keras.Input((FEATURES,))
    x = keras.layers.Dense(1024, activation="relu")(inp)
    code = keras.layers.Dense(96, activation="relu", name="code")(x)
    x = keras.layers.Dense(1024, activation="relu")(code)
    return keras.Model(inp, keras.layers.Dense(FEATURES)(x))


def make_train_step(model, optimizer):
    @tf.function(input_signature=[tf.TensorSpec([BATCH, FEATURES], tf.float32)])
    def train_step(x):
        with tf.GradientTape() as tape:
            residual = tf.abs(model(x, training=True) - x)
            loss = tf.reduce_mean(tf.square(residual))
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))
        return loss, residual

    return train_step


def main():
    keras.utils.set_random_seed(5)
    strokes = make_strokes(STROKES, 5)
    ds = tf.data.Dataset.from_tensor_slices(strokes).shuffle(STROKES).batch(BATCH, drop_remainder=True).prefetch(2)
    model = build()
    step = make_train_step(model, keras.optimizers.Adam(1e-3))
    control = ControlLimit()

    steps, began = 0, time.perf_counter()
    for epoch in range(EPOCHS):
        losses, alarms = [], 0
        for batch in ds:
            loss, residual = step(batch)
            residual = residual.numpy()
            alarms += control.alarms(residual)
            control.add(residual)
            losses.append(float(loss))
            steps += 1
        print(f"epoch {epoch}: mse {np.mean(losses):.5f}, {alarms} strokes beyond the limit", flush=True)
    seconds = time.perf_counter() - began

    print("WORK", steps * BATCH)
    print("TRAIN_SECONDS", seconds)


if __name__ == "__main__":
    main()
