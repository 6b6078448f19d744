"""Salinity at the mouth of an estuary, one hour ahead.

Input: the last 36 hours of everything we log around the estuary (tide gauges,
wind masts, discharge of the tributaries: 240 channels, four years of hours).
Target: the practical salinity at the ferry pier, standardised.
"""
import time

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

SEED = 11
HOURS = 36_000
CHANNELS = 240
LOOKBACK = 36
BATCH = 64
STEPS = 320


def make_forcing(rng):
    """Tidal constituents with a random phase plus a wandering weather signal."""
    t = np.arange(HOURS)[:, None]
    period = rng.choice([12.42, 12.00, 23.93, 25.82], size=CHANNELS)
    phase = rng.uniform(0.0, 2.0 * np.pi, size=CHANNELS)
    tide = np.sin(2.0 * np.pi * t / period + phase)
    weather = rng.normal(0.0, 0.15, size=(HOURS, CHANNELS)).cumsum(axis=0)
    weather -= weather.mean(axis=0)
    weather /= weather.std(axis=0)
    return tide + 0.5 * weather


def make_salinity(forcing, rng):
    drive = forcing[:, :40] @ rng.normal(0.0, 1.0, size=40)
    memory = np.exp(-np.arange(24) / 7.0)
    salinity = np.convolve(drive, memory)[:HOURS]
    salinity += rng.normal(0.0, 0.1, size=HOURS)
    return (salinity - salinity.mean()) / salinity.std()


def build_model():
    inp = keras.Input((LOOKBACK, CHANNELS))
    x = layers.Conv1D(24, 5, strides=2, activation="relu")(inp)
    x = layers.Conv1D(32, 3, activation="relu")(x)
    x = layers.GlobalAveragePooling1D()(x)
    x = layers.Dense(32, activation="relu")(x)
    return keras.Model(inp, layers.Dense(1)(x), name="pier_salinity")


class Trainer:
    def __init__(self, model, lr):
        self.model = model
        self.optimizer = keras.optimizers.Adam(lr)
        self.optimizer.build(model.trainable_variables)
        self.offsets = tf.range(-LOOKBACK, 0)

    @tf.function
    def step(self, forcing, hours, target):
        index = hours[:, None] + self.offsets[None, :]
        window = tf.gather(forcing, index)
        with tf.GradientTape() as tape:
            pred = self.model(window, training=True)
            loss = tf.reduce_mean(tf.square(target - pred))
        grads = tape.gradient(loss, self.model.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.model.trainable_variables))
        return loss


def main():
    rng = np.random.default_rng(SEED)
    keras.utils.set_random_seed(SEED)
    forcing = make_forcing(rng)
    salinity = make_salinity(forcing, rng)
    last_train_hour = int(0.9 * HOURS)

    trainer = Trainer(build_model(), lr=1e-3)
    recent = []

    t0 = time.perf_counter()
    for step in range(1, STEPS + 1):
        hours = rng.integers(LOOKBACK, last_train_hour, size=BATCH).astype("int32")
        loss = trainer.step(
            tf.convert_to_tensor(forcing, dtype=tf.float32),
            tf.convert_to_tensor(hours),
            tf.convert_to_tensor(salinity[hours, None], dtype=tf.float32),
        )
        recent.append(loss)
        if step % 80 == 0:
            print(f"step {step:4d}  mse {np.mean([float(v) for v in recent]):.4f}")
            recent.clear()
    seconds = time.perf_counter() - t0

    # RMSE over the held-out months, in standard deviations
    held_out = np.arange(last_train_hour, HOURS, 24)
    windows = np.stack([forcing[h - LOOKBACK:h] for h in held_out]).astype("float32")
    pred = trainer.model.predict(windows, batch_size=256, verbose=0)[:, 0]
    print("held-out rmse", float(np.sqrt(np.mean((pred - salinity[held_out]) ** 2))))
    print(f"TRAIN_SECONDS {seconds:.2f}")


if __name__ == "__main__":
    main()
