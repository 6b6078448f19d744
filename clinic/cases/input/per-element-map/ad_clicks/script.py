"""Click-through model on impression logs kept as tf.train.Example records."""
import os
import tempfile

import keras
import numpy as np
import tensorflow as tf

N_IMPRESSIONS, BATCH, EPOCHS = 30000, 256, 4
CATEGORICAL = {"site": 400, "slot": 12, "campaign": 900, "hour": 24}
STATS = 6


def spec():
    feats = {k: tf.io.FixedLenFeature([], tf.int64) for k in CATEGORICAL}
    feats["stats"] = tf.io.FixedLenFeature([STATS], tf.float32)
    feats["click"] = tf.io.FixedLenFeature([], tf.float32)
    return feats


def dump_log(path):
    rng = np.random.default_rng(0)
    cats = {k: rng.integers(0, v, N_IMPRESSIONS) for k, v in CATEGORICAL.items()}
    stats = rng.normal(size=(N_IMPRESSIONS, STATS)).astype("float32")
    click = ((cats["site"] % 7 == 0) | (stats[:, 0] > 1.2)).astype("float32")
    i64 = lambda v: tf.train.Feature(int64_list=tf.train.Int64List(value=[v]))
    f32 = lambda v: tf.train.Feature(float_list=tf.train.FloatList(value=v))
    with tf.io.TFRecordWriter(path) as w:
        for i in range(N_IMPRESSIONS):
            f = {k: i64(int(c[i])) for k, c in cats.items()}
            f["stats"], f["click"] = f32(stats[i]), f32([click[i]])
            w.write(tf.train.Example(features=tf.train.Features(feature=f)).SerializeToString())


def unpack(record):
    row = tf.io.parse_single_example(record, spec())
    click = row.pop("click")
    row["stats"] = tf.clip_by_value(row["stats"], -3.0, 3.0)
    return row, click


def impressions(path):
    ds = tf.data.TFRecordDataset(path).shuffle(4096)
    ds = ds.map(unpack, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.batch(BATCH, drop_remainder=True)
    return ds.prefetch(tf.data.AUTOTUNE)


def tower():
    ins, parts = {}, []
    for k, v in CATEGORICAL.items():
        ins[k] = keras.Input((), dtype="int64", name=k)
        parts.append(keras.layers.Embedding(v, 8)(ins[k]))
    ins["stats"] = keras.Input((STATS,), name="stats")
    x = keras.layers.Concatenate()(parts + [ins["stats"]])
    x = keras.layers.Dense(32, activation="relu")(x)
    return keras.Model(ins, keras.layers.Dense(1, activation="sigmoid")(x)[:, 0])


if __name__ == "__main__":
    log = os.path.join(tempfile.mkdtemp(), "impressions.tfrecord")
    dump_log(log)
    model = tower()
    model.compile(optimizer="adagrad", loss="binary_crossentropy")
    model.fit(impressions(log), epochs=EPOCHS, verbose=2)
