"""Song co-listening: two-tower model over catalogue ids, sampled from one region's log."""
import time

import keras
import numpy as np
from keras import layers, ops

CATALOGUE = 400_000


def listening_log(n, active=6000, seed=14):
    rng = np.random.default_rng(seed)
    ids = rng.choice(CATALOGUE, active, replace=False).astype("int32")
    genre = rng.integers(0, 12, active)
    a, b = rng.integers(0, active, (2, n))
    together = (genre[a] == genre[b]) ^ (rng.random(n) < 0.05)
    return ids[a], ids[b], together.astype("float32")


def two_towers(n_songs, dim=24):
    first = keras.Input((), dtype="int32", name="first")
    second = keras.Input((), dtype="int32", name="second")
    table = layers.Embedding(n_songs, dim, name="songs")
    tower = keras.Sequential([layers.Dense(48, activation="relu"), layers.Dense(24)], name="tower")
    u, v = tower(table(first)), tower(table(second))
    score = ops.sum(u * v, axis=-1)
    return keras.Model([first, second], layers.Activation("sigmoid")(score))


def main():
    first, second, together = listening_log(22000)
    n_songs = CATALOGUE
    model = two_towers(n_songs)
    model.compile(keras.optimizers.Adam(3e-3), "binary_crossentropy", metrics=["accuracy"])
    model.summary(print_fn=lambda s: None)
    t0 = time.time()
    hist = model.fit({"first": first, "second": second}, together, batch_size=256, epochs=1, verbose=2)
    spent = time.time() - t0
    print("accuracy", hist.history["accuracy"])
    print("WORK", len(first))
    print("TRAIN_SECONDS %.2f" % spent)


if __name__ == "__main__":
    main()
