import os
import tempfile

import numpy as np
import tensorflow as tf
from tensorflow import keras

N_SLOTS, VOCAB, N_DENSE = 10, 2000, 8
BATCH = 512


def write_log(folder, shards=4, rows=10_000):
    rng = np.random.default_rng(2)
    names = []
    for s in range(shards):
        name = os.path.join(folder, f"clicks-{s:02d}.tfrecord")
        cats = rng.integers(0, VOCAB, (rows, N_SLOTS))
        dense = rng.random((rows, N_DENSE)).astype("float32")
        click = (dense[:, 0] + 0.3 * (cats[:, 0] % 3) + rng.normal(0, 0.3, rows) > 0.9)
        with tf.io.TFRecordWriter(name) as out:
            for c, d, y in zip(cats, dense, click):
                f = {f"slot_{i}": tf.train.Feature(int64_list=tf.train.Int64List(value=[c[i]]))
                     for i in range(N_SLOTS)}
                f["dense"] = tf.train.Feature(float_list=tf.train.FloatList(value=d))
                f["click"] = tf.train.Feature(int64_list=tf.train.Int64List(value=[int(y)]))
                out.write(tf.train.Example(features=tf.train.Features(feature=f)).SerializeToString())
        names.append(name)
    return names


SPEC = {f"slot_{i}": tf.io.FixedLenFeature([], tf.int64) for i in range(N_SLOTS)}
SPEC["dense"] = tf.io.FixedLenFeature([N_DENSE], tf.float32)
SPEC["click"] = tf.io.FixedLenFeature([], tf.int64)


def to_inputs(row):
    slots = tf.stack([row[f"slot_{i}"] for i in range(N_SLOTS)], axis=-1)
    return {"slots": slots, "dense": tf.math.log1p(row["dense"])}, tf.cast(row["click"], tf.float32)


def read(files):
    ds = tf.data.TFRecordDataset(files, num_parallel_reads=2)
    ds = ds.shuffle(5000)
    ds = ds.map(lambda r: to_inputs(tf.io.parse_single_example(r, SPEC)),
                num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.batch(BATCH, drop_remainder=True)
    return ds.prefetch(tf.data.AUTOTUNE)


def deepfm():
    slots = keras.Input((N_SLOTS,), dtype="int64", name="slots")
    dense = keras.Input((N_DENSE,), name="dense")
    e = keras.layers.Embedding(VOCAB, 8)(slots)
    pair_ = keras.layers.Dot(axes=(2, 2))([e, e])
    h = keras.layers.Concatenate()([keras.layers.Flatten()(e), keras.layers.Flatten()(pair_), dense])
    h = keras.layers.Dense(64, activation="relu", name="deep")(h)
    return keras.Model([slots, dense], keras.layers.Dense(1, activation="sigmoid", name="ctr")(h))


with tempfile.TemporaryDirectory() as folder:
    files = write_log(folder)
    model = deepfm()
    model.compile("adagrad", "binary_crossentropy", metrics=["AUC"])
    model.fit(read(files), epochs=4, verbose=2)
