"""Gross weight of vehicles from weigh-in-motion strain traces of a toll bridge, by a Gaussian process.

The kernel's length scales are fitted on chunks of the recorder's log, which is far larger than memory in production.
"""
import gzip
import os
import tempfile
import time

import numpy as np
import tensorflow as tf

WINDOWS, TICKS = 24, 336
RECORD_BYTES = 2 * (1 + WINDOWS * TICKS)


def record_log(path, vehicles, seed):
    """Stand-in for the recorder: weight in units of 10 kg, then the trace, all int16."""
    rng = np.random.default_rng(seed)
    with gzip.open(path, "wb", compresslevel=1) as log:
        for _ in range(vehicles):
            trace = rng.normal(0.0, 25.0, WINDOWS * TICKS).astype(np.float32)
            axles = rng.uniform(300.0, 1500.0, int(rng.integers(2, 7)))
            for load, at in zip(axles, rng.integers(0, WINDOWS * TICKS - 400, len(axles))):
                trace[at:at + 400] += load * np.hanning(400)
            row = np.concatenate([[axles.sum()], trace]).astype("<i2")
            log.write(row.tobytes())


def chunks(path, size):
    options = tf.data.Options()
    options.autotune.enabled = False
    options.deterministic = True
    log = tf.data.FixedLengthRecordDataset(path, RECORD_BYTES, compression_type="GZIP")
    log = log.repeat()
    log = log.batch(size, drop_remainder=True)
    return log.with_options(options)


class WeightProcess(tf.Module):
    def __init__(self, size):
        super().__init__(name="weights")
        self.size = size
        self.log_scale = tf.Variable(tf.fill([WINDOWS], 1.2))
        self.log_amplitude = tf.Variable(0.0)
        self.log_noise = tf.Variable(-1.0)

    def features(self, raw):
        values = tf.reshape(tf.io.decode_raw(raw, tf.int16), (self.size, 1 + WINDOWS * TICKS))
        weight = tf.cast(values[:, 0], tf.float32) / 1000.0
        peaks = tf.reduce_max(tf.reshape(values[:, 1:], (self.size, WINDOWS, TICKS)), axis=2)
        return tf.cast(peaks, tf.float32) / 500.0, weight - 4.0

    def negative_evidence(self, x, y):
        z = x * tf.exp(-self.log_scale)
        norms = tf.reduce_sum(tf.square(z), axis=1)
        d2 = tf.maximum(norms[:, None] + norms[None, :] - 2.0 * tf.matmul(z, z, transpose_b=True), 0.0)
        k = tf.exp(2.0 * self.log_amplitude - 0.5 * d2)
        k += (tf.exp(2.0 * self.log_noise) + 1e-2) * tf.eye(self.size)
        chol = tf.linalg.cholesky(k)
        alpha = tf.linalg.cholesky_solve(chol, y[:, None])
        fit = 0.5 * tf.reduce_sum(y[:, None] * alpha)
        return (fit + tf.reduce_sum(tf.math.log(tf.linalg.diag_part(chol)))) / self.size

    @tf.function
    def step(self, raw, rate):
        x, y = self.features(raw)
        with tf.GradientTape() as tape:
            loss = self.negative_evidence(x, y)
        grads, _ = tf.clip_by_global_norm(tape.gradient(loss, self.trainable_variables), 1.0)
        for v, g in zip(self.trainable_variables, grads):
            v.assign_sub(rate * g)
        return loss


def main():
    size, steps = 512, 150
    path = os.path.join(tempfile.mkdtemp(prefix="wim_"), "bridge_north.log.gz")
    record_log(path, 3 * size, seed=3)
    process = WeightProcess(size)
    rate = tf.constant(0.02)
    log = iter(chunks(path, size))
    process.step(next(log), rate)

    began = time.perf_counter()
    for i in range(1, steps + 1):
        loss = process.step(next(log), rate)
        if i % 25 == 0:
            print(f"chunk {i:4d}: {float(loss):.4f} nats per vehicle")
    seconds = time.perf_counter() - began
    print("WORK", steps * size)
    print(f"TRAIN_SECONDS {seconds:.3f}")


if __name__ == "__main__":
    main()
