"""Grade saffron lots, in rounds of a fixed number of steps, keeping the best round."""
import os
import tempfile

import numpy as np
import tensorflow as tf
import keras

LOTS = 30_000
SCHEMA = {
    "absorb": tf.io.FixedLenFeature([24], tf.float32),
    "grade": tf.io.FixedLenFeature([], tf.int64),
}


def weigh(folder):
    rng = np.random.default_rng(77)
    absorb = rng.normal(size=(LOTS, 24)).astype("float32")
    grade = (absorb[:, :4].sum(axis=1) > 0).astype(int) + (absorb[:, 4] > 1).astype(int)
    path = os.path.join(folder, "lots.tfrecord")
    with tf.io.TFRecordWriter(path) as out:
        for row, mark in zip(absorb, grade):
            feats = tf.train.Features(feature={
                "absorb": tf.train.Feature(float_list=tf.train.FloatList(value=row)),
                "grade": tf.train.Feature(int64_list=tf.train.Int64List(value=[mark]))})
            out.write(tf.train.Example(features=feats).SerializeToString())
    return path


def lots(path, batch):
    source = tf.data.TFRecordDataset(path).repeat()
    mixed = source.shuffle(LOTS, seed=7)
    grouped = mixed.batch(batch, drop_remainder=True)
    parsed = grouped.map(lambda raw: tf.io.parse_example(raw, SCHEMA), num_parallel_calls=tf.data.AUTOTUNE)
    return parsed.map(lambda f: (f["absorb"], f["grade"])).prefetch(tf.data.AUTOTUNE)


def grader():
    net = keras.Sequential([keras.Input((24,)), keras.layers.Dense(256, "relu"),
                            keras.layers.Dense(256, "relu"), keras.layers.Dense(3)])
    net.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return net


def rounds(net, path, count, steps):
    best = (float("inf"), None)
    data = lots(path, 32)
    for number in range(count):
        log = net.fit(data, steps_per_epoch=steps, epochs=1, verbose=0)
        best = min(best, (log.history["loss"][0], number))
    return best


if __name__ == "__main__":
    keras.utils.set_random_seed(77)
    path = weigh(tempfile.mkdtemp())
    print("best round", rounds(grader(), path, 40, 12))
