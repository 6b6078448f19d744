"""Routes customer support tickets to one of eight desks. Nightly retraining job."""
import logging
import os
import tempfile
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
log = logging.getLogger("routing")

DESKS = ["billing", "delivery", "returns", "login", "fraud", "bulk", "press", "other"]
N_TICKETS, SHARDS, BATCH, EPOCHS = 20000, 4, 256, 10


def export_tickets(folder):
    """Stands in for the warehouse export: desk <tab> text."""
    rng = np.random.default_rng(8)
    syllables = ["ba", "ke", "lo", "mi", "tur", "san", "ve", "dor", "pil", "gra", "Ste", "un"]
    words = np.array(["".join(rng.choice(syllables, rng.integers(2, 4))) for _ in range(3000)], dtype=object)
    words[::9] += ","
    words[::13] += "!"
    paths = []
    for shard in range(SHARDS):
        n = N_TICKETS // SHARDS
        desk = rng.integers(0, len(DESKS), n)
        topic = rng.integers(0, 120, (n, 110)) + desk[:, None] * 120
        general = rng.integers(0, 3000, (n, 110))
        ids = np.where(rng.random((n, 110)) < 0.15, topic, general)
        path = os.path.join(folder, f"tickets-{shard:02d}.tsv")
        with open(path, "w") as f:
            for d, row in zip(desk, words[ids].tolist()):
                f.write(DESKS[d] + "\t" + " ".join(row) + "\n")
        paths.append(path)
    return paths


class Reader:
    def __init__(self, paths):
        self.paths = paths
        self.vectorizer = layers.TextVectorization(max_tokens=6000, ngrams=2, output_sequence_length=120)
        self.desk_id = layers.StringLookup(vocabulary=DESKS, num_oov_indices=0)

    @staticmethod
    def _columns(lines):
        parts = tf.strings.split(lines, "\t", maxsplit=1).to_tensor(shape=[None, 2])
        return parts[:, 0], parts[:, 1]

    def learn_vocabulary(self, n_lines=2500):
        lines = tf.data.TextLineDataset(self.paths[:1]).take(n_lines).batch(500)
        self.vectorizer.adapt(lines.map(lambda l: self._columns(l)[1]))

    def _encode(self, lines):
        desk, text = self._columns(lines)
        return self.vectorizer(text), self.desk_id(desk)

    def training(self):
        ds = tf.data.TextLineDataset(self.paths, num_parallel_reads=2)
        ds = ds.batch(BATCH)
        ds = ds.map(self._encode, num_parallel_calls=tf.data.AUTOTUNE)
        ds = ds.shuffle(64, seed=2)
        return ds.prefetch(2)


def build():
    inp = keras.Input((120,), dtype="int64")
    x = layers.Embedding(6000, 8)(inp)
    x = layers.GlobalAveragePooling1D()(x)
    x = layers.Dense(64, activation="relu")(x)
    out = layers.Dense(len(DESKS), activation="softmax")(x)
    model = keras.Model(inp, out)
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def run():
    keras.utils.set_random_seed(4)
    with tempfile.TemporaryDirectory() as folder:
        reader = Reader(export_tickets(folder))
        reader.learn_vocabulary()
        log.info("vocabulary of %d", reader.vectorizer.vocabulary_size())
        model = build()
        data = reader.training()
        began = time.perf_counter()
        hist = model.fit(data, epochs=EPOCHS, verbose=0)
        took = time.perf_counter() - began
    for i, (l, a) in enumerate(zip(hist.history["loss"], hist.history["accuracy"])):
        log.info("epoch %d loss %.3f accuracy %.3f", i, l, a)
    print("WORK %d" % (EPOCHS * N_TICKETS))
    print("TRAIN_SECONDS %.3f" % took)


if __name__ == "__main__":
    run()
