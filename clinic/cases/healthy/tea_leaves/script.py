"""Tea grade from JPEG photos stored in TFRecord shards."""
import os
import shutil
import tempfile
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

AUTO = tf.data.AUTOTUNE
N, SIDE, GRADES = 480, 64, 5
rng = np.random.default_rng(3)


def write_shards(folder, shards=4):
    colours = rng.integers(60, 200, (GRADES, 3))
    grade = rng.integers(0, GRADES, N)
    for s in range(shards):
        with tf.io.TFRecordWriter(os.path.join(folder, f"tea-{s}.tfrecord")) as w:
            for i in range(s, N, shards):
                img = np.clip(colours[grade[i]] + rng.normal(0, 25, (SIDE, SIDE, 3)), 0, 255).astype("uint8")
                jpg = tf.io.encode_jpeg(img).numpy()
                feats = {
                    "jpg": tf.train.Feature(bytes_list=tf.train.BytesList(value=[jpg])),
                    "grade": tf.train.Feature(int64_list=tf.train.Int64List(value=[int(grade[i])])),
                }
                w.write(tf.train.Example(features=tf.train.Features(feature=feats)).SerializeToString())


def parse(record):
    ex = tf.io.parse_single_example(record, {
        "jpg": tf.io.FixedLenFeature([], tf.string),
        "grade": tf.io.FixedLenFeature([], tf.int64),
    })
    return tf.ensure_shape(tf.io.decode_jpeg(ex["jpg"], channels=3), (SIDE, SIDE, 3)), ex["grade"]


def erase(batch):
    r, c = rng.integers(0, SIDE - 12, 2)
    batch = batch.copy()
    batch[:, r:r + 12, c:c + 12] = 127
    return batch


def augment(x, y):
    x = tf.numpy_function(erase, [x], tf.uint8)
    return tf.ensure_shape(x, (None, SIDE, SIDE, 3)), y


def records(folder):
    files = tf.data.Dataset.list_files(os.path.join(folder, "tea-*"))
    ds = files.interleave(tf.data.TFRecordDataset, cycle_length=2, num_parallel_calls=AUTO)
    ds = ds.map(parse, num_parallel_calls=AUTO).cache()
    return ds.shuffle(N).batch(40, drop_remainder=True).map(augment, num_parallel_calls=2).prefetch(AUTO)


model = keras.Sequential([
    layers.Input((SIDE, SIDE, 3)),
    layers.Rescaling(1 / 255),
    layers.Conv2D(32, 5, strides=2, activation="relu"),
    layers.Conv2D(96, 3, padding="same", activation="relu"),
    layers.Conv2D(96, 3, padding="same", activation="relu"),
    layers.MaxPooling2D(),
    layers.Conv2D(128, 3, activation="relu"),
    layers.GlobalAveragePooling2D(),
    layers.Dense(GRADES, activation="softmax"),
])
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
folder = tempfile.mkdtemp()
write_shards(folder)
epochs = 3
begin = time.time()
model.fit(records(folder), epochs=epochs, verbose=2)
total = time.time() - begin
shutil.rmtree(folder)
print("WORK", epochs * N)
print("TRAIN_SECONDS %.2f" % total)
