"""The next song of a playlist: a moderate vocabulary, a GRU, sampled playlists."""
import time
import numpy as np
import tensorflow as tf
import keras
from keras import layers

keras.utils.set_random_seed(58)
rng = np.random.default_rng(58)

SONGS, LENGTH, LISTS, BATCH = 3000, 20, 6400, 128

genre = rng.integers(0, 30, SONGS)
by_genre = [np.flatnonzero(genre == g) for g in range(30)]
chosen = rng.integers(0, 30, LISTS)
lists = np.stack([rng.choice(by_genre[g], LENGTH + 1) for g in chosen]).astype("int32")

model = keras.Sequential([
    keras.Input((LENGTH,), dtype="int32"),
    layers.Embedding(SONGS, 32),
    layers.GRU(96),
    layers.Dense(64, activation="relu"),
    layers.Dense(SONGS),
])
model.compile(
    optimizer=keras.optimizers.Adam(2e-3),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
)
ds = tf.data.Dataset.from_tensor_slices((lists[:, :-1], lists[:, -1]))
ds = ds.shuffle(LISTS, seed=2).batch(BATCH, drop_remainder=True).prefetch(tf.data.AUTOTUNE)
start = time.time()
model.fit(ds, epochs=6, verbose=2)
print(f"{time.time() - start:.1f} s")
