"""Sea-floor class from sonar pings that sit in an object store (here: a stand-in with its round trip)."""
import argparse
import time
import zlib

import numpy as np
import tensorflow as tf

ap = argparse.ArgumentParser()
ap.add_argument("--epochs", type=int, default=4)
ap.add_argument("--batch", type=int, default=16)
ap.add_argument("--round-trip", type=float, default=0.005)
args = ap.parse_args()


class Bucket:
    """Keeps compressed blobs; get() takes as long as the network does."""

    def __init__(self, n):
        r = np.random.default_rng(8)
        t = np.linspace(0, 1, 1024)
        self.blobs, self.floor = [], r.integers(0, 3, n)
        for k in self.floor:
            ping = np.sin(2 * np.pi * (20 + 15 * k) * t) * np.exp(-3 * t) + r.normal(0, .3, t.size)
            self.blobs.append(zlib.compress(ping.astype("float32").tobytes(), 1))

    def get(self, i):
        time.sleep(args.round_trip)
        return self.blobs[int(i)]


bucket = Bucket(480)


def fetch(i):
    blob = tf.numpy_function(bucket.get, [i], tf.string)
    wave = tf.io.decode_raw(tf.io.decode_compressed(blob, "ZLIB"), tf.float32)
    wave = tf.ensure_shape(wave, [1024])
    wave = wave / (tf.math.reduce_std(wave) + 1e-6)
    return wave[:, None], tf.gather(bucket.floor, i)


order = tf.data.Dataset.range(480).shuffle(480, seed=4)
pings = order.map(fetch)
connections = tf.data.Options()
connections.threading.private_threadpool_size = 16
pings = pings.batch(args.batch, drop_remainder=True).prefetch(tf.data.AUTOTUNE).with_options(connections)

tf.keras.utils.set_random_seed(0)
net = tf.keras.Sequential([
    tf.keras.layers.Input((1024, 1)),
    tf.keras.layers.Conv1D(16, 16, strides=8, activation="relu"),
    tf.keras.layers.Conv1D(32, 8, strides=4, activation="relu"),
    tf.keras.layers.GlobalMaxPooling1D(),
    tf.keras.layers.Dense(3)])
net.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
t0 = time.time()
net.fit(pings, epochs=args.epochs, verbose=2)
print(f"trained in {time.time() - t0:.2f} s")
