"""Which record goes into whose crate: BPR matrix factorisation for a record fair.

The purchases come as a binary log, eight bytes a purchase: collector id and
record id, both little-endian int32 (that is how the tills write them).
"""
import os
import tempfile
import time

import numpy as np
import tensorflow as tf
import keras

COLLECTORS = 50_000
RECORDS = 80_000
GENRES = 40
DIM = 32
BATCH = 1024
PURCHASES = 64_000
EPOCHS = 4


def write_till_log(folder, rng):
    taste = rng.integers(0, GENRES, size=COLLECTORS)
    collector = rng.integers(0, COLLECTORS, size=PURCHASES)
    genre = np.where(rng.random(PURCHASES) < 0.85, taste[collector],
                     rng.integers(0, GENRES, size=PURCHASES))
    per_genre = RECORDS // GENRES
    record = genre * per_genre + (per_genre * rng.random(PURCHASES) ** 2).astype("int64")
    path = os.path.join(folder, "till.bin")
    np.stack([collector, record], axis=1).astype("<i4").tofile(path)
    return path


def purchases(path):
    def decode(raw):
        return tf.ensure_shape(tf.io.decode_raw(raw, tf.int32), (BATCH, 2))

    ds = tf.data.FixedLengthRecordDataset([path], record_bytes=8)
    ds = ds.shuffle(16_384, seed=1).batch(BATCH, drop_remainder=True)
    ds = ds.map(decode, num_parallel_calls=tf.data.AUTOTUNE)
    return ds.prefetch(tf.data.AUTOTUNE)


class CrateModel(keras.Model):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        init = keras.initializers.RandomNormal(stddev=0.1, seed=9)
        self.collector_table = keras.layers.Embedding(COLLECTORS, DIM, embeddings_initializer=init)
        self.record_table = keras.layers.Embedding(RECORDS, DIM, embeddings_initializer=init)
        self.bpr = keras.metrics.Mean(name="bpr")
        self.ranked = keras.metrics.Mean(name="ranked")

    def call(self, pairs):
        u = self.collector_table(pairs[:, 0])
        v = self.record_table(pairs[:, 1])
        return tf.reduce_sum(u * v, axis=-1)

    def train_step(self, pairs):
        other = tf.random.uniform((BATCH,), 0, RECORDS, dtype=tf.int32)
        with tf.GradientTape() as tape:
            u = self.collector_table(pairs[:, 0])
            bought = tf.reduce_sum(u * self.record_table(pairs[:, 1]), axis=-1)
            not_bought = tf.reduce_sum(u * self.record_table(other), axis=-1)
            loss = tf.reduce_mean(tf.nn.softplus(not_bought - bought))
        variables = self.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        self.bpr.update_state(loss)
        self.ranked.update_state(tf.cast(bought > not_bought, tf.float32))
        return {"bpr": self.bpr.result(), "ranked": self.ranked.result()}


def main():
    keras.utils.set_random_seed(33)
    rng = np.random.default_rng(33)
    path = write_till_log(tempfile.mkdtemp(prefix="crates_"), rng)
    data = purchases(path)

    model = CrateModel()
    model(tf.zeros((1, 2), tf.int32))
    print("parameters:", model.count_params())
    model.compile(optimizer=keras.optimizers.Adam(2e-3))

    t0 = time.perf_counter()
    model.fit(data, epochs=EPOCHS, verbose=2)
    t1 = time.perf_counter()

    table = model.record_table.get_weights()[0]
    print("mean length of a record vector: %.4f" % np.linalg.norm(table, axis=1).mean())
    print(f"TRAIN_SECONDS {t1 - t0:.2f}")


if __name__ == "__main__":
    main()
