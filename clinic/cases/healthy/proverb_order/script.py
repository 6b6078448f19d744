# Which word comes next in a proverb? Word vectors, a GRU, and plain SGD.
import keras
import numpy as np
import tensorflow as tf
from keras import layers

WORDS = 20_000
LENGTH = 24
BATCH = 128

rng = np.random.default_rng(2)
first = np.minimum(rng.zipf(1.4, (BATCH * 30, 1)), WORDS - 1)
steps = rng.integers(1, 9, (BATCH * 30, LENGTH))
text = ((first + np.cumsum(steps, axis=1)) % WORDS).astype("int32")


def split(row):
    return row[:, :-1], row[:, -1] % 64


lines = (
    tf.data.Dataset.from_tensor_slices(text)
    .shuffle(len(text), seed=3)
    .batch(BATCH, drop_remainder=True)
    .map(split, num_parallel_calls=tf.data.AUTOTUNE)
    .prefetch(tf.data.AUTOTUNE)
)

keras.utils.set_random_seed(5)
model = keras.Sequential(
    [
        keras.Input((LENGTH - 1,), dtype="int32"),
        layers.Embedding(WORDS, 96),
        layers.GRU(160, return_sequences=True),
        layers.GRU(128),
        layers.Dense(64),
    ]
)
model.compile(
    optimizer=keras.optimizers.SGD(0.1),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
model.fit(lines, epochs=5, verbose=2)
sample = model.predict(text[:256, :-1], batch_size=256, verbose=0)
print("most likely:", np.bincount(sample.argmax(axis=1)).argmax())
