"""Siamese net on ear notch patterns: is this the same animal?"""
import os
import random
import time

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
import keras
import numpy as np
from keras import layers, ops

keras.utils.set_random_seed(17)


class NotchPairs(keras.utils.PyDataset):
    """Half of the pairs are two views of one animal, half of two different ones."""

    def __init__(self, views, animal, batch_size, batches, **kw):
        super().__init__(**kw)
        self.views, self.animal = views, animal
        self.batch_size, self.batches = batch_size, batches
        self.everyone = sorted(set(animal.tolist()))

    def __len__(self):
        return self.batches

    def views_of(self, who):
        return [i for i in range(len(self.animal)) if self.animal[i] == who]

    def __getitem__(self, index):
        dice = random.Random(index)
        left, right, same = [], [], []
        for k in range(self.batch_size):
            who = dice.choice(self.everyone)
            a = dice.choice(self.views_of(who))
            if k % 2:
                b = dice.choice(self.views_of(who))
            else:
                other = dice.choice([w for w in self.everyone if w != who])
                b = dice.choice(self.views_of(other))
            left.append(self.views[a])
            right.append(self.views[b])
            same.append(float(k % 2))
        return (np.stack(left), np.stack(right)), np.array(same, "float32")


def herd(animals=60, each=40, length=128):
    rng = np.random.default_rng(17)
    base = (rng.random((animals, length)) < 0.12).astype("float32")
    views = np.repeat(base, each, 0) + 0.35 * rng.standard_normal((animals * each, length))
    return views.astype("float32")[..., None], np.repeat(np.arange(animals), each)


def tower(length):
    i = keras.Input((length, 1))
    x = layers.Conv1D(16, 7, strides=2, activation="relu")(i)
    x = layers.Conv1D(32, 5, strides=2, activation="relu")(x)
    x = layers.Flatten()(x)
    return keras.Model(i, layers.Dense(32)(x))


views, animal = herd()
pairs = NotchPairs(views, animal, batch_size=64, batches=260)
f = tower(views.shape[1])
a, b = keras.Input(views.shape[1:]), keras.Input(views.shape[1:])
gap = ops.sum(ops.square(f(a) - f(b)), axis=-1, keepdims=True)
siam = keras.Model([a, b], layers.Dense(1, activation="sigmoid")(gap))
siam.compile(optimizer=keras.optimizers.Adam(1e-3), loss="binary_crossentropy", metrics=["accuracy"])
began = time.time()
siam.fit(pairs, epochs=1, verbose=2, shuffle=False)
print("WORK", 64 * 260)
print("TRAIN_SECONDS %.3f" % (time.time() - began))
