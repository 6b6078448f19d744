import os
import tempfile

import numpy as np
import tensorflow as tf
from keras import Input, Model, layers, utils

SIDE = 256
CORES = 400


def drill(path):
    rng = np.random.default_rng(17)
    with tf.io.TFRecordWriter(path) as writer:
        for _ in range(CORES):
            depth = np.cumsum(rng.normal(0, 9, SIDE)) + 120
            image = np.clip(depth[:, None, None] + rng.normal(0, 6, (SIDE, SIDE, 3)), 0, 255)
            blob = tf.io.encode_jpeg(image.astype("uint8"), quality=92).numpy()
            feature = {
                "photo": tf.train.Feature(bytes_list=tf.train.BytesList(value=[blob])),
                "age": tf.train.Feature(float_list=tf.train.FloatList(value=[float(depth.mean()) / 255])),
            }
            writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())


SPEC = {"photo": tf.io.FixedLenFeature([], tf.string), "age": tf.io.FixedLenFeature([], tf.float32)}


def develop(serialized):
    example = tf.io.parse_single_example(serialized, SPEC)
    photo = tf.io.decode_jpeg(example["photo"], channels=3)
    photo = tf.image.resize(photo, (48, 48), method="area") / 255.0
    return photo, example["age"]


def strata(path):
    return (tf.data.TFRecordDataset(path)
            .map(develop, num_parallel_calls=tf.data.AUTOTUNE)
            .shuffle(128, seed=1)
            .batch(20)
            .prefetch(tf.data.AUTOTUNE))


def ager():
    photo = Input((48, 48, 3))
    x = layers.Conv2D(8, 5, strides=3, activation="relu")(photo)
    x = layers.Conv2D(16, 3, strides=2, activation="relu")(x)
    x = layers.GlobalAveragePooling2D()(x)
    return Model(photo, layers.Dense(1)(x))


def main():
    utils.set_random_seed(17)
    path = os.path.join(tempfile.mkdtemp(), "cores.tfrecord")
    drill(path)
    model = ager()
    model.compile(optimizer="adam", loss="mse")
    log = model.fit(strata(path), epochs=14, verbose=0)
    print("mse", log.history["loss"][-1])


if __name__ == "__main__":
    main()
