"""Storm type from radar echoes. Two shards of TFRecords, decoded and filtered in the first epoch and kept."""
import os
import tempfile
import time
import numpy as np
import tensorflow as tf
import keras
from keras import layers

keras.utils.set_random_seed(3)
rng = np.random.default_rng(3)
SIDE = 40


def write_shards(folder, n=2400, shards=2):
    names = [os.path.join(folder, f"echo-{k}.tfrecord") for k in range(shards)]
    writers = [tf.io.TFRecordWriter(name) for name in names]
    yy, xx = np.mgrid[:SIDE, :SIDE] / SIDE - 0.5
    for i in range(n):
        kind = int(rng.integers(0, 4))
        base = np.cos((kind + 1) * 6 * np.hypot(xx, yy)) + 0.5 * rng.normal(size=(SIDE, SIDE))
        img = np.clip(128 + 60 * base, 0, 255).astype("uint8")[..., None]
        feature = {
            "echo": tf.train.Feature(bytes_list=tf.train.BytesList(value=[tf.io.encode_jpeg(img).numpy()])),
            "kind": tf.train.Feature(int64_list=tf.train.Int64List(value=[kind])),
        }
        writers[i % shards].write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
    for w in writers:
        w.close()
    return names


def decode(record):
    f = tf.io.parse_single_example(record, {
        "echo": tf.io.FixedLenFeature([], tf.string), "kind": tf.io.FixedLenFeature([], tf.int64)})
    echo = tf.cast(tf.io.decode_jpeg(f["echo"], channels=1), tf.float32) / 255.0
    smooth = tf.nn.avg_pool2d(echo[None], 3, 1, "SAME")[0]
    return tf.concat([echo, smooth], -1), f["kind"]


with tempfile.TemporaryDirectory() as folder:
    names = write_shards(folder)
    ds = tf.data.TFRecordDataset(names, num_parallel_reads=2)
    ds = ds.map(decode, num_parallel_calls=tf.data.AUTOTUNE).cache()
    ds = ds.shuffle(2400, seed=7).batch(48).prefetch(tf.data.AUTOTUNE)

    model = keras.Sequential([
        keras.Input((SIDE, SIDE, 2)),
        layers.Conv2D(24, 3, activation="relu"),
        layers.MaxPooling2D(),
        layers.Conv2D(48, 3, activation="relu"),
        layers.MaxPooling2D(),
        layers.Conv2D(64, 3, activation="relu"),
        layers.GlobalAveragePooling2D(),
        layers.Dense(4),
    ])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    t0 = time.time()
    model.fit(ds, epochs=5, verbose=2)
    print(f"{time.time() - t0:.1f} s")
