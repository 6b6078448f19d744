"""Wave height from buoy spectra. Records come from the harbour office's archive."""
import time

import numpy as np
import tensorflow as tf

SEED = 314
ROUND_TRIP = 0.006
POINTS = 128


class Archive:
    """Answers one request at a time per connection, with a network round trip."""

    def __init__(self, n):
        rng = np.random.default_rng(SEED)
        self.height = rng.uniform(0.2, 4.0, n).astype("float32")
        t = np.arange(POINTS) / 16.0
        phase = rng.uniform(0, 6.28, (n, 1))
        self.signal = (self.height[:, None] * np.sin(t + phase)).astype("float32")

    def get(self, key):
        time.sleep(ROUND_TRIP)
        return self.signal[key], self.height[key]


def pipeline(archive, n, batch):
    def fetch(key):
        sig, h = tf.numpy_function(archive.get, [key], (tf.float32, tf.float32))
        sig.set_shape((POINTS,))
        h.set_shape(())
        return sig, h

    options = tf.data.Options()
    options.deterministic = True
    options.threading.private_threadpool_size = 1
    options.threading.max_intra_op_parallelism = 1
    ds = tf.data.Dataset.range(n).shuffle(n, seed=SEED)
    ds = ds.map(fetch, num_parallel_calls=16)
    ds = ds.batch(batch).prefetch(4)
    return ds.with_options(options)


def make_model():
    return tf.keras.Sequential([
        tf.keras.Input((POINTS,)),
        tf.keras.layers.Reshape((POINTS, 1)),
        tf.keras.layers.Conv1D(16, 9, strides=2, activation="relu"),
        tf.keras.layers.Conv1D(32, 9, strides=2, activation="relu"),
        tf.keras.layers.GlobalMaxPooling1D(),
        tf.keras.layers.Dense(1),
    ])


def main():
    tf.keras.utils.set_random_seed(SEED)
    archive = Archive(1040)
    model = make_model()
    model.compile(optimizer="adam", loss="mae")
    t0 = time.time()
    model.fit(pipeline(archive, 1040, 16), epochs=1, verbose=2)
    print("elapsed", time.time() - t0)


main()
