"""Next-note model on generated melodies: stacked LSTM, Keras fit over in-memory windows."""
import numpy as np
from tensorflow import keras

NOTES, WINDOW = 72, 40


def melodies(n, seed):
    g = np.random.default_rng(seed)
    scale = np.array([0, 2, 4, 5, 7, 9, 11])
    degree = np.cumsum(g.integers(-2, 3, (n, WINDOW + 1)), axis=1) + g.integers(10, 30, (n, 1))
    degree = np.clip(degree, 0, 40)
    return (scale[degree % 7] + 12 * (degree // 7)).astype("int32") % NOTES


seqs = melodies(128 * 20, 1)
x, y = seqs[:, :-1], seqs[:, 1:]

keras.utils.set_random_seed(0)
model = keras.Sequential([
    keras.Input((WINDOW,), dtype="int32"),
    keras.layers.Embedding(NOTES, 96),
    keras.layers.LSTM(256, return_sequences=True),
    keras.layers.LayerNormalization(),
    keras.layers.Dense(NOTES),
])
model.compile(keras.optimizers.Adam(2e-3, clipnorm=1.0),
              keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(x, y, batch_size=128, epochs=3, verbose=2)
