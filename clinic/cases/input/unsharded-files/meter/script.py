import os
import tempfile

import numpy as np
import tensorflow as tf
from tensorflow import keras

# Smart-meter load forecasting. Each household exports its own record.
HOUSES = 5000
POINTS = 48


def example(curve, target):
    feats = {
        "curve": tf.train.Feature(float_list=tf.train.FloatList(value=curve)),
        "target": tf.train.Feature(float_list=tf.train.FloatList(value=[target])),
    }
    return tf.train.Example(features=tf.train.Features(feature=feats)).SerializeToString()


def households():
    rng = np.random.default_rng(17)
    base = rng.gamma(2.0, 1.0, (HOUSES, 1))
    curves = base * (1 + 0.5 * np.sin(np.linspace(0, 6.28, POINTS))) + rng.normal(0, 0.1, (HOUSES, POINTS))
    return curves.astype("float32"), (curves[:, -4:].mean(1)).astype("float32")


def export(folder):
    curves, targets = households()
    names = []
    for i, (c, t) in enumerate(zip(curves, targets)):
        names.append(os.path.join(folder, f"house_{i:05d}.tfrecord"))
        with tf.io.TFRecordWriter(names[-1]) as w:
            w.write(example(c, t))
    return names


SPEC = {
    "curve": tf.io.FixedLenFeature([POINTS], tf.float32),
    "target": tf.io.FixedLenFeature([], tf.float32),
}


def parse(batch):
    f = tf.io.parse_example(batch, SPEC)
    return f["curve"], f["target"]


def read(names, batch):
    files = tf.data.Dataset.from_tensor_slices(names).shuffle(len(names))
    ds = files.flat_map(tf.data.TFRecordDataset)
    ds = ds.shuffle(512).batch(batch)
    return ds.map(parse, num_parallel_calls=2).prefetch(4)


def main():
    tf.keras.utils.set_random_seed(2)
    with tempfile.TemporaryDirectory() as folder:
        ds = read(export(folder), 100)
        inp = keras.Input((POINTS,))
        z = keras.layers.Normalization(mean=2.0, variance=2.0)(inp)
        z = keras.layers.Dense(64, "relu")(z)
        model = keras.Model(inp, keras.layers.Dense(1)(z))
        model.compile(loss="mae", optimizer="nadam")
        hist = model.fit(ds, epochs=6, verbose=2)
    print("mae", hist.history["loss"][-1])


main()
