"""Small grid search over LSTM sentiment models, with a macro-F1 report."""
import itertools

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

VOCAB, MAXLEN, CLASSES = 12_000, 120, 3
GRID = {"units": [64, 128], "dropout": [0.2, 0.4]}


def fake_reviews(n, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, CLASSES, n)
    x = rng.integers(10, VOCAB, (n, MAXLEN))
    x[:, ::7] = 10 + y[:, None] * 3 + rng.integers(0, 3, x[:, ::7].shape)
    lengths = rng.integers(40, MAXLEN + 1, n)
    x[np.arange(MAXLEN)[None] >= lengths[:, None]] = 0
    return x.astype("int32"), y.astype("int32")


def macro_f1(y, pred):
    scores = np.zeros(CLASSES, dtype=np.float64)
    for c in range(CLASSES):
        tp = np.sum((pred == c) & (y == c), dtype=np.float64)
        scores[c] = 2 * tp / max(1.0, np.sum(pred == c) + np.sum(y == c))
    return scores.mean()


class F1(keras.callbacks.Callback):
    def __init__(self, x, y):
        super().__init__()
        self.x, self.y = x, y
        self.values = []

    def on_epoch_end(self, epoch, logs=None):
        p = self.model.predict(self.x, batch_size=1024, verbose=0).argmax(-1)
        self.values.append(macro_f1(self.y, p))


def build(units, dropout):
    tokens = keras.Input((None,), dtype="int32")
    h = layers.Embedding(VOCAB, 96)(tokens)
    h = layers.Bidirectional(layers.LSTM(units, dropout=dropout, return_sequences=True))(h)
    h = layers.LSTM(units, dropout=dropout)(h)
    h = layers.Dense(units, activation="relu")(h)
    return keras.Model(tokens, layers.Dense(CLASSES, activation="softmax")(h))


def main():
    x, y = fake_reviews(30_000, 0)
    xv, yv = fake_reviews(3_000, 1)
    ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(len(x))
    ds = ds.batch(256, drop_remainder=True).prefetch(tf.data.AUTOTUNE)
    results = {}
    for units, dropout in itertools.product(*GRID.values()):
        keras.backend.clear_session()
        model = build(units, dropout)
        model.compile(keras.optimizers.Adam(1e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])
        f1 = F1(xv, yv)
        model.fit(ds, epochs=6, callbacks=[f1], verbose=2)
        results[units, dropout] = max(f1.values)
        print("units", units, "dropout", dropout, "f1 %.4f" % results[units, dropout])
    print("best", max(results, key=results.get))


if __name__ == "__main__":
    main()
