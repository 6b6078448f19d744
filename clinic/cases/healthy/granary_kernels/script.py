"""Kinds of grain from photographs of kernels, which were packed into record files once."""
import os
import tempfile
import time

import numpy as np
import tensorflow as tf
from tensorflow.keras import layers

SIZE, KERNELS, SHARDS, BATCH, EPOCHS = 48, 1280, 4, 32, 5


def prepare(folder):
    rng = np.random.default_rng(17)
    for shard in range(SHARDS):
        with tf.io.TFRecordWriter(f"{folder}/kernels-{shard}.tfrecord") as writer:
            for _ in range(KERNELS // SHARDS):
                kind = int(rng.integers(0, 5))
                picture = rng.normal(60 + 30 * kind, 20, (SIZE, SIZE, 3)).clip(0, 255).astype("uint8")
                feature = {
                    "picture": tf.train.Feature(
                        bytes_list=tf.train.BytesList(value=[tf.io.encode_jpeg(picture).numpy()])
                    ),
                    "kind": tf.train.Feature(int64_list=tf.train.Int64List(value=[kind])),
                }
                writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())


def parse(record):
    spec = {"picture": tf.io.FixedLenFeature([], tf.string), "kind": tf.io.FixedLenFeature([], tf.int64)}
    kernel = tf.io.parse_single_example(record, spec)
    picture = tf.io.decode_jpeg(kernel["picture"], channels=3)
    return tf.image.random_flip_left_right(tf.cast(picture, tf.float32) / 255.0), kernel["kind"]


with tempfile.TemporaryDirectory() as folder:
    prepare(folder)
    files = tf.data.Dataset.from_tensor_slices(sorted(os.path.join(folder, name) for name in os.listdir(folder)))
    data = files.interleave(tf.data.TFRecordDataset, cycle_length=SHARDS, num_parallel_calls=tf.data.AUTOTUNE)
    data = data.shuffle(500, seed=4).map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    data = data.batch(BATCH, drop_remainder=True).prefetch(tf.data.AUTOTUNE)
    model = tf.keras.Sequential([
        layers.Input((SIZE, SIZE, 3)),
        layers.Conv2D(32, 3, activation="relu"),
        layers.Conv2D(32, 3, strides=2, activation="relu"),
        layers.Conv2D(64, 3, strides=2, activation="relu"),
        layers.GlobalAveragePooling2D(),
        layers.Dense(5),
    ])
    model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    model.fit(data, epochs=1, verbose=2)
    start = time.perf_counter()
    model.fit(data, epochs=EPOCHS, verbose=2)
    print("WORK", EPOCHS * KERNELS)
    print(f"TRAIN_SECONDS {time.perf_counter() - start:.3f}")
