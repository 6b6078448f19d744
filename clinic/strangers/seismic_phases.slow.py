"""P/S phase picking on three-component seismograms."""
import time

import numpy as np
import tensorflow as tf
from tensorflow.keras import layers

WINDOW = 256


class Archive:
    def __init__(self, traces=400, length=1200, seed=7):
        rng = np.random.default_rng(seed)
        self.rng = rng
        self.p = rng.integers(300, 600, traces)
        self.s = self.p + rng.integers(40, 120, traces)
        t = np.arange(length)
        noise = rng.normal(0, 0.3, (traces, length, 3))
        p_wave = np.where(t > self.p[:, None], np.exp(-(t - self.p[:, None]) / 60.0), 0)
        s_wave = np.where(t > self.s[:, None], 2 * np.exp(-(t - self.s[:, None]) / 90.0), 0)
        amp = np.stack([p_wave, 0.4 * p_wave + s_wave, s_wave], -1)
        self.data = (noise + amp * np.sin(t / 2.0)[None, :, None]).astype(np.float32)

    def windows(self):
        while True:
            k = self.rng.integers(len(self.data))
            start = self.p[k] - self.rng.integers(10, 200)
            w = self.data[k, start:start + WINDOW]
            w = (w - w.mean(0)) / (w.std(0) + 1e-6)
            grid = np.arange(start, start + WINDOW)
            label = np.stack([np.exp(-((grid - self.p[k]) / 6.0) ** 2),
                              np.exp(-((grid - self.s[k]) / 6.0) ** 2)], -1)
            yield w.astype(np.float32), label.astype(np.float32)


def picker():
    x = inp = tf.keras.Input((WINDOW, 3))
    for f, k in ((8, 7), (12, 5)):
        x = layers.Conv1D(f, k, strides=2, padding="same", activation="relu")(x)
    for f in (12, 8):
        x = layers.UpSampling1D(2)(x)
        x = layers.Conv1D(f, 5, padding="same", activation="relu")(x)
    return tf.keras.Model(inp, layers.Conv1D(2, 1)(x))


def dataset(archive, batch):
    spec = (tf.TensorSpec((WINDOW, 3), tf.float32), tf.TensorSpec((WINDOW, 2), tf.float32))
    ds = tf.data.Dataset.from_generator(archive.windows, output_signature=spec)
    return ds.batch(batch).prefetch(tf.data.AUTOTUNE)


class Fitter:
    def __init__(self, model, lr):
        self.model, self.opt = model, tf.keras.optimizers.Adam(lr)
        self.loss = tf.keras.metrics.Mean()

    @tf.function
    def step(self, x, y):
        with tf.GradientTape() as tape:
            logits = self.model(x, training=True)
            loss = tf.reduce_mean(tf.nn.weighted_cross_entropy_with_logits(y, logits, 8.0))
        g = tape.gradient(loss, self.model.trainable_variables)
        self.opt.apply_gradients(zip(g, self.model.trainable_variables))
        self.loss.update_state(loss)

    def run(self, batches, steps, every):
        for i in range(1, steps + 1):
            self.step(*next(batches))
            if i % every == 0:
                print(f"{i}: {float(self.loss.result()):.4f}")
                self.loss.reset_state()


def main():
    STEPS, BATCH = 200, 64
    archive = Archive()
    fitter = Fitter(picker(), 2e-3)
    batches = iter(dataset(archive, BATCH).take(STEPS))
    t0 = time.perf_counter()
    fitter.run(batches, STEPS, 100)
    t1 = time.perf_counter()
    print("WORK", STEPS * BATCH)
    print("TRAIN_SECONDS", t1 - t0)


if __name__ == "__main__":
    main()
