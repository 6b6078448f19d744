"""Predict the glaze outcome of a firing from the kiln's thermocouple curve."""
import gzip
import os
import tempfile

import numpy as np
import tensorflow as tf
import keras

CURVE = 96
CHANNELS = 64
RECORD = CURVE * CHANNELS * 4
FIRINGS = 6400
BATCH = 64


def write_ledgers(folder, shards=4):
    rng = np.random.default_rng(11)
    paths = []
    for shard in range(shards):
        path = os.path.join(folder, f"kiln{shard}.bin.gz")
        with gzip.open(path, "wb", compresslevel=1) as out:
            for _ in range(FIRINGS // shards):
                ramp = rng.normal(size=(CURVE, CHANNELS)).cumsum(axis=0)
                out.write(np.round(ramp, 2).astype("<f4").tobytes())
        paths.append(path)
    return paths


def reproducible(dataset):
    options = tf.data.Options()
    options.deterministic = True
    options.autotune.enabled = False
    return dataset.with_options(options)


def ledger_batches(paths):
    records = tf.data.FixedLengthRecordDataset(paths, RECORD, compression_type="GZIP")
    return reproducible(records.batch(BATCH, drop_remainder=True))


class GlazeModel(keras.Model):
    def __init__(self):
        super().__init__()
        self.rnn = keras.layers.GRU(24)
        self.head = keras.layers.Dense(1)
        self.tracker = keras.metrics.Mean(name="loss")

    def call(self, curves):
        return self.head(self.rnn(curves))

    @property
    def metrics(self):
        return [self.tracker]

    def train_step(self, raw):
        curves = tf.reshape(tf.io.decode_raw(raw, tf.float32), (BATCH, CURVE, CHANNELS))
        peak = tf.reduce_max(curves[:, :, :1], axis=1) / 10.0
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self(curves / 10.0) - peak))
        variables = self.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        self.tracker.update_state(loss)
        return {"loss": self.tracker.result()}


def main():
    keras.utils.set_random_seed(11)
    folder = tempfile.mkdtemp()
    paths = write_ledgers(folder)
    model = GlazeModel()
    model.compile(optimizer=keras.optimizers.Adam(1e-3), jit_compile=False)
    history = model.fit(ledger_batches(paths), epochs=2, verbose=0)
    print("loss", round(history.history["loss"][-1], 4))


if __name__ == "__main__":
    main()
