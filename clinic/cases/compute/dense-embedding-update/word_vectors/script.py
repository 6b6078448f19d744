"""Word vectors for a million words, trained by Adam with a dense update of both tables."""
import os
import time

import numpy as np
import tensorflow as tf

SMALL = os.environ.get("SLOWTRAIN_SMALL") == "1"
WORDS, BATCH, STEPS = (8000, 512, 40) if SMALL else (1_000_000, 2048, 200)

rng = np.random.default_rng(13)
centre, context = rng.integers(0, WORDS, (2, STEPS * BATCH))
near = rng.integers(0, 2, STEPS * BATCH).astype("float32")
pairs = tf.data.Dataset.from_tensor_slices(((centre, context), near))
pairs = pairs.batch(BATCH, drop_remainder=True).cache().prefetch(8)

a, b = tf.keras.Input((), dtype="int32"), tf.keras.Input((), dtype="int32")
left = tf.keras.layers.Embedding(WORDS, 128)(a)
right = tf.keras.layers.Embedding(WORDS, 128)(b)
model = tf.keras.Model([a, b], tf.keras.layers.Dot(axes=1)([left, right]))
model.compile("adam", tf.keras.losses.BinaryCrossentropy(from_logits=True))
model.fit(pairs, epochs=1, verbose=2)
t0 = time.perf_counter()
model.fit(pairs, epochs=4, verbose=2)
print("WORK", 4 * STEPS * BATCH)
print("TRAIN_SECONDS %.3f" % (time.perf_counter() - t0))
