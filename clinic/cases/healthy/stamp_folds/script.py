"""Postage stamp condition, two folds; PyDataset that slices an array and flips half of it."""
import time

import keras
import numpy as np
from keras import layers


class StampBatches(keras.utils.PyDataset):
    def __init__(self, x, y, batch, augment, **kw):
        super().__init__(**kw)
        self.x, self.y, self.batch, self.augment = x, y, batch, augment
        self.order = np.arange(len(x))
        self.rng = np.random.default_rng(0)

    def __len__(self):
        return len(self.x) // self.batch

    def __getitem__(self, i):
        ids = self.order[i * self.batch:(i + 1) * self.batch]
        x = self.x[ids]
        if self.augment and self.rng.random() < 0.5:
            x = x[:, :, ::-1]
        return x, self.y[ids]

    def on_epoch_end(self):
        self.rng.shuffle(self.order)


def stamps(n, seed):
    rng = np.random.default_rng(seed)
    grade = rng.uniform(0, 1, n).astype("float32")
    x = rng.normal(0, 0.1, (n, 48, 48, 3)).astype("float32") + grade[:, None, None, None]
    tears = rng.random((n, 48, 48, 1)) > 0.7 + 0.3 * grade[:, None, None, None]
    return np.where(tears, -1, x).astype("float32"), grade


def grader():
    model = keras.Sequential([
        keras.Input((48, 48, 3)),
        layers.Conv2D(32, 5, padding="same", activation="relu"),
        layers.Conv2D(48, 5, padding="same", activation="relu"),
        layers.MaxPooling2D(),
        layers.Conv2D(64, 5, padding="same", activation="relu"),
        layers.GlobalAveragePooling2D(),
        layers.Dense(32, activation="relu"),
        layers.Dense(1, activation="sigmoid"),
    ])
    model.compile("adam", "mse", metrics=["mae"])
    return model


def main():
    x, y = stamps(256, 3)
    halves = np.array_split(np.random.default_rng(9).permutation(len(x)), 2)
    scores, seen = [], 0
    t0 = time.time()
    for k, held in enumerate(halves):
        rest = np.concatenate([h for j, h in enumerate(halves) if j != k])
        train = StampBatches(x[rest], y[rest], 32, True)
        model = grader()
        model.fit(train, epochs=2, verbose=2)
        seen += 2 * len(train) * 32
        scores.append(model.evaluate(x[held[:32]], y[held[:32]], verbose=0)[1])
    spent = time.time() - t0
    print("mae per fold", np.round(scores, 4))
    print("WORK", seen)
    print("TRAIN_SECONDS %.2f" % spent)


main()
