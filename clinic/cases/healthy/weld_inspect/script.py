"""Weld seam inspection. X-ray strips are PNGs on disk, the network grades porosity."""
import json
import os
import tempfile

import numpy as np
import tensorflow as tf

SETTINGS = json.loads("""
{"strips": 120, "height": 128, "width": 512, "batch": 10, "rounds": 24,
 "runtime": {"inter_op": 1, "intra_op": 2, "seed": 9}}
""")


def prepare_runtime(rt):
    tf.keras.utils.set_random_seed(rt["seed"])
    tf.config.threading.set_inter_op_parallelism_threads(rt["inter_op"])
    tf.config.threading.set_intra_op_parallelism_threads(rt["intra_op"])


def make_strips(folder, n, h, w):
    rng = np.random.default_rng(1)
    names, porosity = [], []
    for i in range(n):
        p = rng.uniform()
        strip = rng.normal(30000, 2500, (h, w, 1)) + 9000 * (rng.uniform(size=(h, w, 1)) < p * 0.05)
        name = os.path.join(folder, f"seam{i}.png")
        tf.io.write_file(name, tf.io.encode_png(np.clip(strip, 0, 65535).astype("uint16")))
        names.append(name)
        porosity.append(p)
    return names, np.array(porosity, "float32")


def view(name, p):
    strip = tf.cast(tf.io.decode_png(tf.io.read_file(name), 1, tf.uint16), tf.float32) / 65535.0
    left = tf.random.uniform((), 0, 512 - 384, tf.int32)
    strip = tf.image.resize(strip[:, left:left + 384], (32, 96), antialias=True)
    return tf.image.random_contrast(strip, 0.8, 1.25), p


def feed(names, porosity):
    ds = tf.data.Dataset.from_tensor_slices((names, porosity)).shuffle(len(names))
    ds = ds.map(view, num_parallel_calls=4, deterministic=False)
    return ds.batch(SETTINGS["batch"]).prefetch(4)


class Trainer:
    def __init__(self, net):
        self.net = net
        self.opt = tf.keras.optimizers.SGD(0.01, momentum=0.9)
        self.loss = tf.keras.losses.Huber()

    @tf.function(reduce_retracing=True)
    def step(self, x, y):
        with tf.GradientTape() as tape:
            val = self.loss(y[:, None], self.net(x, training=True))
        tv = self.net.trainable_variables
        self.opt.apply_gradients(zip(tape.gradient(val, tv), tv))
        return val

    def run(self, ds, rounds):
        for r in range(rounds):
            total = tf.zeros(())
            for x, y in ds:
                total += self.step(x, y)
            if r % 4 == 0:
                print(f"round {r} huber {float(total):.4f}")


prepare_runtime(SETTINGS["runtime"])
with tempfile.TemporaryDirectory() as folder:
    data = make_strips(folder, SETTINGS["strips"], SETTINGS["height"], SETTINGS["width"])
    net = tf.keras.Sequential([tf.keras.layers.Input((32, 96, 1)),
                               tf.keras.layers.Conv2D(8, 3, 2, activation="relu"),
                               tf.keras.layers.Conv2D(12, 3, 2, activation="relu"),
                               tf.keras.layers.GlobalAveragePooling2D(), tf.keras.layers.Dense(1)])
    Trainer(net).run(feed(*data), SETTINGS["rounds"])
