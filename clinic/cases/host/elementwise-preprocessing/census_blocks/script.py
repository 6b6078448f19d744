"""Household income band from census block answers."""
import time

import keras
import numpy as np
import tensorflow as tf

N = 30000
QUESTIONS = 80
MISSING = -9.0


def survey():
    rng = np.random.default_rng(17)
    answers = rng.gamma(2.0, 3.0, (N, QUESTIONS)).round(2)
    answers[rng.random((N, QUESTIONS)) < 0.05] = MISSING
    band = (answers[:, :6].sum(1) > 36).astype("int32") + (answers[:, 3] > 8)
    return answers, band


def column_stats(answers):
    lows, highs, means = [], [], []
    for j in range(QUESTIONS):
        col = answers[:, j]
        valid = col[col != MISSING]
        lows.append(valid.min())
        highs.append(np.quantile(valid, 0.99))
        means.append(valid.mean())
    return np.array(lows), np.array(highs), np.array(means)


def clean(answers, stats):
    lows, highs, means = stats
    out = np.zeros(answers.shape, "float32")
    for i in range(answers.shape[0]):
        for j in range(answers.shape[1]):
            v = answers[i, j]
            if v == MISSING:
                v = means[j]
            v = min(max(v, lows[j]), highs[j])
            out[i, j] = (v - lows[j]) / (highs[j] - lows[j])
    return out


def band_model():
    m = keras.Sequential([keras.layers.Input((QUESTIONS,))])
    for units in (384, 256):
        m.add(keras.layers.Dense(units, activation="relu"))
        m.add(keras.layers.Dropout(0.2))
    m.add(keras.layers.Dense(3, activation="softmax"))
    m.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return m


def main():
    keras.utils.set_random_seed(17)
    answers, band = survey()
    model = band_model()
    begin = time.time()
    x = clean(answers, column_stats(answers))
    split = int(0.9 * N)
    train = (
        tf.data.Dataset.from_tensor_slices((x[:split], band[:split]))
        .shuffle(split)
        .batch(256)
        .prefetch(tf.data.AUTOTUNE)
    )
    epochs = 4
    model.fit(train, epochs=epochs, verbose=2)
    print("test", model.evaluate(x[split:], band[split:], batch_size=1024, verbose=0))
    total = time.time() - begin
    print("WORK", epochs * split)
    print("TRAIN_SECONDS %.2f" % total)


main()
