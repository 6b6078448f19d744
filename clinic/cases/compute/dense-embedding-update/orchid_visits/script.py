"""Which orchid does a pollinator visit next?  Visitors carry ring numbers from a national register."""
import time

import keras
import numpy as np
from keras import layers

REGISTER = 250_000
ORCHIDS = 40
BATCH = 512


def field_notes(rows, individuals, seed):
    rng = np.random.default_rng(seed)
    rings = rng.choice(REGISTER, individuals, replace=False)
    who = rng.integers(0, individuals, rows)
    taste = rng.integers(0, ORCHIDS, individuals)
    weather = rng.normal(size=(rows, 8)).astype("float32")
    visited = np.where(rng.random(rows) < 0.7, taste[who], rng.integers(0, ORCHIDS, rows))
    return rings[who].astype("int32"), weather, visited.astype("int32")


def visit_model(visitors, dim=16):
    ring = keras.Input((), dtype="int32", name="ring")
    sky = keras.Input((8,), name="weather")
    v = layers.Embedding(visitors, dim, name="visitor")(ring)
    h = layers.Concatenate()([v, sky])
    h = layers.Dense(192, activation="relu")(h)
    h = layers.Dense(96, activation="relu")(h)
    out = layers.Dense(ORCHIDS, activation="softmax")(h)
    model = keras.Model([ring, sky], out)
    model.compile(keras.optimizers.Adam(2e-3), "sparse_categorical_crossentropy",
                  metrics=["accuracy"])
    return model


def main(rows=30_720, epochs=4):
    keras.utils.set_random_seed(6)
    ring, weather, visited = field_notes(rows, individuals=3000, seed=6)
    model = visit_model(REGISTER)
    t0 = time.time()
    history = model.fit({"ring": ring, "weather": weather}, visited,
                        batch_size=BATCH, epochs=epochs, verbose=0)
    t = time.time() - t0
    for e, a in enumerate(history.history["accuracy"], 1):
        print(f"epoch {e}: accuracy {a:.3f}")
    print("WORK", epochs * rows)
    print("TRAIN_SECONDS", round(t, 3))


main()
