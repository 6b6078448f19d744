"""Purchase prediction from click trails kept in TFRecord shards."""
import os
import tempfile

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(17)
rng = np.random.default_rng(17)
folder = tempfile.mkdtemp(prefix="clicks_")
SESSIONS, TRAIL = 10000, 30


def example(items, dwell, bought):
    f = tf.train.Feature
    return tf.train.Example(features=tf.train.Features(feature={
        "items": f(int64_list=tf.train.Int64List(value=items)),
        "dwell": f(float_list=tf.train.FloatList(value=dwell)),
        "bought": f(int64_list=tf.train.Int64List(value=[bought])),
    })).SerializeToString()


for shard in range(4):
    with tf.io.TFRecordWriter(os.path.join(folder, f"part-{shard}.tfrecord")) as out:
        for _ in range(SESSIONS // 4):
            items = rng.integers(1, 5000, TRAIL)
            dwell = rng.exponential(20, TRAIL)
            out.write(example(items, dwell, int(dwell.mean() > 20)))


def parse(record):
    row = tf.io.parse_single_example(record, {
        "items": tf.io.FixedLenFeature([TRAIL], tf.int64),
        "dwell": tf.io.FixedLenFeature([TRAIL], tf.float32),
        "bought": tf.io.FixedLenFeature([], tf.int64),
    })
    dwell = tf.math.log1p(row["dwell"])
    dwell = (dwell - tf.reduce_mean(dwell)) / (tf.math.reduce_std(dwell) + 1e-3)
    return {"items": row["items"], "dwell": dwell}, row["bought"]


shards = tf.data.Dataset.list_files(folder + "/part-*", shuffle=False)
train = shards.interleave(tf.data.TFRecordDataset, cycle_length=4, num_parallel_calls=2)
train = train.map(parse, num_parallel_calls=tf.data.AUTOTUNE)
train = train.shuffle(SESSIONS, seed=9)
train = train.batch(128).prefetch(2)

items = tf.keras.Input((TRAIL,), dtype="int64", name="items")
dwell = tf.keras.Input((TRAIL,), name="dwell")
e = tf.keras.layers.Embedding(5000, 8)(items)
e = tf.keras.layers.Flatten()(e)
h = tf.keras.layers.Concatenate()([e, dwell])
h = tf.keras.layers.Dense(64, activation="relu")(h)
model = tf.keras.Model([items, dwell], tf.keras.layers.Dense(1)(h))
model.compile("sgd", tf.keras.losses.BinaryCrossentropy(from_logits=True))
model.fit(train, epochs=7, verbose=2)
