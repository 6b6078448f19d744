"""Earthquake or quarry blast? One record per event, as the network exports them."""
import pathlib
import tempfile

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(13)
rng = np.random.default_rng(13)
archive = pathlib.Path(tempfile.mkdtemp(prefix="quake_"))
LENGTH = 200


def to_example(trace, blast):
    feature = {
        "trace": tf.train.Feature(float_list=tf.train.FloatList(value=trace)),
        "blast": tf.train.Feature(int64_list=tf.train.Int64List(value=[blast])),
    }
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


def export(n_events=1800):
    for event in range(n_events):
        blast = int(rng.random() < 0.4)
        decay = np.exp(-np.arange(LENGTH) / (20 if blast else 60))
        trace = rng.normal(0, 1, LENGTH) * decay
        station = archive / f"ST{event % 30:02d}"
        station.mkdir(exist_ok=True)
        with tf.io.TFRecordWriter(str(station / f"ev{event:05d}.tfrecord.gz"), "GZIP") as writer:
            writer.write(to_example(trace, blast))


SPEC = {
    "trace": tf.io.FixedLenFeature([LENGTH], tf.float32),
    "blast": tf.io.FixedLenFeature([], tf.int64),
}


def parse_batch(serialised):
    parsed = tf.io.parse_example(serialised, SPEC)
    return parsed["trace"][..., None], tf.cast(parsed["blast"], tf.float32)


export()
files = sorted(str(p) for p in archive.rglob("*.tfrecord.gz"))
rng.shuffle(files)
train = tf.data.TFRecordDataset(files, compression_type="GZIP")
train = train.shuffle(512, seed=1).batch(64).map(parse_batch, num_parallel_calls=2).prefetch(2)

model = tf.keras.Sequential([
    tf.keras.layers.Input((LENGTH, 1)),
    tf.keras.layers.Conv1D(8, 9, strides=4, activation="relu"),
    tf.keras.layers.GlobalAveragePooling1D(),
    tf.keras.layers.Dense(1),
])
model.compile(optimizer="adam", loss=tf.keras.losses.BinaryCrossentropy(from_logits=True))
model.fit(train, epochs=24, verbose=2)
