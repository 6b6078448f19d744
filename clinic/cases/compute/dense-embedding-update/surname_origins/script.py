"""Language of origin for parish-register entries: bag of surname stems, hashed."""
import time
import zlib
import numpy as np
import tensorflow as tf
import keras
from keras import layers

BUCKETS = 2 ** 17
STEMS_PER_ENTRY = 40
LANGUAGES = 12


def invent_stems(n, rng):
    onset = ["b", "br", "d", "f", "g", "h", "k", "kr", "l", "m", "n", "p", "r", "s", "st", "t", "w", "z"]
    nucleus = ["a", "e", "i", "o", "u", "ae", "ie", "au"]
    coda = ["", "n", "r", "l", "s", "ck", "rt", "nd"]
    stems = set()
    while len(stems) < n:
        stems.add("".join(rng.choice(onset) + rng.choice(nucleus) + rng.choice(coda) for _ in range(2)))
    return sorted(stems)


class StemIds:
    """Turns stems into integers for the embedding."""

    def __init__(self, stems):
        self.table = np.array([zlib.crc32(s.encode()) % BUCKETS for s in stems], "int32")
        self.size = BUCKETS

    def __call__(self, numbers):
        return self.table[numbers]


class OriginModel(keras.Model):
    def __init__(self, size, width=32):
        super().__init__()
        self.embed = layers.Embedding(size, width)
        self.mix = layers.Conv1D(256, 3, padding="same", activation="relu")
        self.pool = layers.GlobalAveragePooling1D()
        self.head = layers.Dense(LANGUAGES)

    def call(self, ids):
        return self.head(self.pool(self.mix(self.embed(ids))))


def register(n, stems, rng):
    language = rng.integers(0, LANGUAGES, n)
    share = stems // LANGUAGES
    common = rng.integers(0, stems, (n, STEMS_PER_ENTRY))
    own = language[:, None] * share + rng.integers(0, share, (n, STEMS_PER_ENTRY))
    return np.where(rng.random((n, STEMS_PER_ENTRY)) < 0.3, own, common), language.astype("int32")


def main(entries=12_800, batch=128, epochs=1):
    rng = np.random.default_rng(1753)
    stems = invent_stems(4000, rng)
    ids = StemIds(stems)
    numbers, language = register(entries, len(stems), rng)
    ds = (tf.data.Dataset.from_tensor_slices((ids(numbers), language))
          .shuffle(entries, seed=2).batch(batch, drop_remainder=True).prefetch(tf.data.AUTOTUNE))
    model = OriginModel(ids.size)
    model.compile(optimizer=keras.optimizers.Adam(2e-3), metrics=["accuracy"],
                  loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    begin = time.perf_counter()
    model.fit(ds, epochs=epochs, verbose=2)
    seconds = time.perf_counter() - begin
    print("WORK", entries * epochs)
    print("TRAIN_SECONDS %.3f" % seconds)


main()
