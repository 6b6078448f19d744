"""Season word (kigo) classifier for romanised haiku, characters in, one of five seasons out."""
import time
import numpy as np
import tensorflow as tf
import keras
from keras import layers

ALPHABET = " abcdefghijklmnopqrstuvwxyz'-"
LENGTH = 64
SEASONS = ["spring", "summer", "autumn", "winter", "new year"]
EPOCHS = 2
BATCH = 32
EVAL_BATCH = 8


class HaikuCorpus:
    """Writes pseudo-haiku with a planted season word."""

    SYLLABLES = ["ka", "wa", "zu", "to", "bi", "ko", "mu", "mi", "no", "o", "shi", "ru", "ya", "ne", "hi", "ta"]
    KIGO = [["sakura", "kawazu"], ["semi", "hotaru"], ["tsuki", "momiji"], ["yuki", "kogarashi"], ["hatsuhi", "zoni"]]

    def __init__(self, size, seed):
        rng = np.random.default_rng(seed)
        self.labels = rng.integers(0, len(SEASONS), size).astype("int32")
        code = {c: i for i, c in enumerate(ALPHABET)}
        self.chars = np.zeros((size, LENGTH), "int32")
        for row, label in enumerate(self.labels):
            words = ["".join(rng.choice(self.SYLLABLES, 3)) for _ in range(6)]
            words.insert(int(rng.integers(0, 6)), self.KIGO[label][int(rng.integers(0, 2))])
            text = " ".join(words)[:LENGTH]
            self.chars[row, :len(text)] = [code[c] for c in text]

    def __len__(self):
        return len(self.labels)

    def training(self):
        ds = tf.data.Dataset.from_tensor_slices((self.chars, self.labels))
        return ds.shuffle(len(self), seed=5).repeat().batch(BATCH).prefetch(tf.data.AUTOTUNE)

    def testing(self):
        return tf.data.Dataset.from_tensor_slices((self.chars, self.labels)).batch(EVAL_BATCH)


def reader():
    inputs = keras.Input((LENGTH,), dtype="int32")
    x = layers.Embedding(len(ALPHABET), 64)(inputs)
    x = layers.Conv1D(128, 5, padding="same", activation="relu")(x)
    x = layers.Conv1D(128, 5, padding="same", activation="relu")(x)
    x = layers.GlobalMaxPooling1D()(x)
    x = layers.Dense(64, activation="relu")(x)
    return keras.Model(inputs, layers.Dense(len(SEASONS), activation="softmax")(x))


train, test = HaikuCorpus(1536, 1), HaikuCorpus(160, 2)
model = reader()
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])

begin = time.perf_counter()
model.fit(train.training(), epochs=EPOCHS, steps_per_epoch=len(train) // EVAL_BATCH, verbose=2)
elapsed = time.perf_counter() - begin

print("test", model.evaluate(test.testing(), verbose=0))
print("WORK", len(train) * EPOCHS)
print("TRAIN_SECONDS %.3f" % elapsed)
