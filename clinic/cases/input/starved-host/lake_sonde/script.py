"""Algae bloom from a lake's depth profiles; batches fetched from the sonde's little web service."""
import time

import numpy as np
import tensorflow as tf

CONFIG = {
    "profiles": 4096,
    "depths": 64,
    "batch": 32,
    "epochs": 2,
    "latency": 0.03,
    "threads": 1,
}


class Sonde:
    def __init__(self, cfg):
        g = np.random.default_rng(36)
        self.latency = cfg["latency"]
        self.x = g.normal(size=(cfg["profiles"], cfg["depths"], 3)).cumsum(1).astype("float32") / 8
        self.y = (self.x[:, -8:, 0].mean(1) > self.x[:, :8, 1].mean(1)).astype("float32")

    def query(self, rows):
        time.sleep(self.latency)
        return self.x[rows], self.y[rows]


def pipeline(sonde, cfg):
    def ask(rows):
        x, y = tf.numpy_function(sonde.query, [rows], (tf.float32, tf.float32))
        return tf.ensure_shape(x, (None, cfg["depths"], 3)), tf.ensure_shape(y, (None,))

    ds = tf.data.Dataset.range(cfg["profiles"]).shuffle(cfg["profiles"], seed=3).batch(cfg["batch"])
    ds = ds.map(ask, num_parallel_calls=16, deterministic=False).prefetch(8)
    return tune(ds, cfg)


def tune(ds, cfg):
    options = tf.data.Options()
    options.threading.max_intra_op_parallelism = 1
    options.threading.private_threadpool_size = cfg["threads"]
    return ds.with_options(options)


def main(cfg=CONFIG):
    tf.keras.utils.set_random_seed(36)
    x = tf.keras.Input((cfg["depths"], 3))
    h = tf.keras.layers.Conv1D(32, 5, activation="relu")(x)
    h = tf.keras.layers.GlobalAveragePooling1D()(h)
    net = tf.keras.Model(x, tf.keras.layers.Dense(1, activation="sigmoid")(h))
    net.compile("nadam", "binary_crossentropy")
    t0 = time.time()
    net.fit(pipeline(Sonde(cfg), cfg), epochs=cfg["epochs"], verbose=2)
    print(f"fit {time.time() - t0:.2f} s")


main()
