"""Next-bar model over piano rolls. Practises in short sessions, with a report after each."""
import logging
import time
import zlib

import numpy as np
import tensorflow as tf
from tensorflow import keras

log = logging.getLogger("practice")
TICKS, KEYS = 64, 88


class Repertoire:
    def __init__(self, pieces, seed=31):
        g = np.random.default_rng(seed)
        rolls = (g.random((pieces, TICKS, KEYS)) < 0.04).astype(np.uint8)
        self.packed = [zlib.compress((r * 100).tobytes(), 6) for r in rolls]

    @staticmethod
    def unroll(blob):
        flat = tf.io.decode_raw(tf.io.decode_compressed(blob, "ZLIB"), tf.uint8)
        roll = tf.cast(tf.reshape(flat, [TICKS, KEYS]), tf.float32) / 127.0
        return roll[:-1], roll[1:]

    def dataset(self, batch, mix):
        ds = tf.data.Dataset.from_tensor_slices(self.packed)
        ds = ds.map(self.unroll, num_parallel_calls=tf.data.AUTOTUNE)
        return ds.shuffle(mix, seed=8).batch(batch, drop_remainder=True).prefetch(4)


class Sessions:
    """Cuts a dataset into sessions of a few bars each."""

    def __init__(self, dataset, bars):
        self.dataset, self.bars = dataset, bars

    def __call__(self):
        yield from self.dataset.take(self.bars)


class Pupil:
    def __init__(self, width):
        self.net = keras.Sequential([
            keras.Input((TICKS - 1, KEYS)),
            keras.layers.Conv1D(width, 5, padding="causal", activation="relu"),
            keras.layers.Conv1D(width, 5, padding="causal", dilation_rate=2, activation="relu"),
            keras.layers.Dense(KEYS),
        ])
        self.opt = keras.optimizers.Adam(1e-3)
        self.opt.build(self.net.trainable_variables)

    @tf.function(reduce_retracing=True)
    def play(self, now, then):
        with tf.GradientTape() as tape:
            guess = self.net(now, training=True)
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(then, guess))
        g = tape.gradient(loss, self.net.trainable_variables)
        self.opt.apply_gradients(zip(g, self.net.trainable_variables))
        return loss


def practise(pupil, sessions, days):
    for day in range(days):
        losses = [pupil.play(a, b) for a, b in sessions()]
        if day % 8 == 0:
            log.info("day %d: %.4f", day, float(tf.reduce_mean(losses)))


def main(days=24, bars=25, batch=32):
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    ds = Repertoire(6000).dataset(batch, mix=5000)
    pupil, sessions = Pupil(40), Sessions(ds, bars)
    practise(pupil, sessions, 1)
    t0 = time.monotonic()
    practise(pupil, sessions, days)
    dt = time.monotonic() - t0
    print("WORK", days * bars * batch)
    print("TRAIN_SECONDS", round(dt, 3))


if __name__ == "__main__":
    main()
