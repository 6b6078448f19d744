"""Bearing fault detection from vibration spectra; TFRecords on disk, one pass of the records per epoch."""
import json
import os
import pathlib
import tempfile

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import keras
import numpy as np
import tensorflow as tf

CONFIG = json.loads("""{"bands": 256, "faults": 4, "clips": 2400, "batch": 40,
                        "rounds": 5, "lr": 0.0015, "shards": 4}""")


def write_records(root, cfg):
    r = np.random.default_rng(5)
    for s in range(cfg["shards"]):
        with tf.io.TFRecordWriter(str(root / f"part-{s}.tfr")) as w:
            for _ in range(cfg["clips"] // cfg["shards"]):
                k = int(r.integers(cfg["faults"]))
                spec = r.gamma(1.0, 1.0, cfg["bands"])
                spec[20 * (k + 1)::31 + 7 * k] += 2.5
                ex = tf.train.Example(features=tf.train.Features(feature={
                    "s": tf.train.Feature(bytes_list=tf.train.BytesList(value=[spec.astype("float32").tobytes()])),
                    "k": tf.train.Feature(int64_list=tf.train.Int64List(value=[k]))}))
                w.write(ex.SerializeToString())
    return sorted(str(p) for p in root.glob("*.tfr"))


def decode(rows):
    f = tf.io.parse_example(rows, {"s": tf.io.FixedLenFeature([], tf.string), "k": tf.io.FixedLenFeature([], tf.int64)})
    return tf.math.log1p(tf.io.decode_raw(f["s"], tf.float32)), f["k"]


def reader(files, cfg):
    ds = tf.data.TFRecordDataset(files, num_parallel_reads=2)
    ds = ds.shuffle(1000, seed=8, reshuffle_each_iteration=True)
    ds = ds.repeat(cfg["rounds"])
    ds = ds.batch(cfg["batch"], drop_remainder=True)
    return ds.map(decode, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


def net(cfg):
    i = keras.Input((cfg["bands"],))
    h = keras.layers.Reshape((cfg["bands"], 1))(i)
    for f in (16, 32, 48):
        h = keras.layers.Conv1D(f, 7, strides=2, padding="same")(h)
        h = keras.layers.BatchNormalization()(h)
        h = keras.layers.Activation("relu")(h)
    h = keras.layers.GlobalAveragePooling1D()(h)
    return keras.Model(i, keras.layers.Dense(cfg["faults"], activation="softmax")(h))


def train(cfg):
    files = write_records(pathlib.Path(tempfile.mkdtemp()), cfg)
    model = net(cfg)
    model.compile(keras.optimizers.Adam(cfg["lr"]), "sparse_categorical_crossentropy", metrics=["acc"])
    model.fit(reader(files, cfg), epochs=cfg["rounds"], verbose=2)
    return model


train(CONFIG)
