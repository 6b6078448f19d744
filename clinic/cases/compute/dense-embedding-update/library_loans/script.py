# Who borrows what: readers and titles of a city library, implicit pairs.
import argparse

import keras
import numpy as np
import tensorflow as tf
from keras import layers

ap = argparse.ArgumentParser()
ap.add_argument("--readers", type=int, default=150_000)
ap.add_argument("--titles", type=int, default=250_000)
ap.add_argument("--dim", type=int, default=32)
ap.add_argument("--batch", type=int, default=256)
ap.add_argument("--steps", type=int, default=200)
cfg = ap.parse_args()

keras.utils.set_random_seed(13)
rng = np.random.default_rng(13)
n = cfg.batch * cfg.steps
reader = rng.integers(0, cfg.readers, n).astype("int32")
title = np.minimum(rng.zipf(1.3, n), cfg.titles - 1).astype("int32")
liked = ((reader % 7) == (title % 7)).astype("float32")

loans = tf.data.Dataset.from_tensor_slices(({"reader": reader, "title": title}, liked))
loans = loans.batch(cfg.batch, drop_remainder=True).cache().prefetch(tf.data.AUTOTUNE)

r_in = keras.Input((), name="reader", dtype="int32")
t_in = keras.Input((), name="title", dtype="int32")
r = layers.Embedding(cfg.readers, cfg.dim, name="reader_vectors")(r_in)
t = layers.Embedding(cfg.titles, cfg.dim, name="title_vectors")(t_in)
both = layers.Concatenate()([r, t, layers.Multiply()([r, t])])
h = layers.Dense(64, activation="relu")(both)
h = layers.Dense(32, activation="relu")(h)
out = layers.Dense(1, activation="sigmoid")(h)
model = keras.Model([r_in, t_in], out)

model.compile(
    optimizer=keras.optimizers.Adam(1e-3),
    loss="binary_crossentropy",
    metrics=["AUC"],
)
model.fit(loans, epochs=1, verbose=2)
vectors = model.get_layer("title_vectors").get_weights()[0]
print("mean norm of a title:", float(np.linalg.norm(vectors, axis=1).mean()))
