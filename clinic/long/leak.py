"""A loop that keeps what it should let go: embeddings of one batch in forty stay in a list for a plot nobody makes."""

import sys
import time

import keras
import numpy as np
import tensorflow as tf

SECONDS = 60 * float(sys.argv[1]) if len(sys.argv) > 1 else 600

rng = np.random.default_rng(0)
x = rng.random((8192, 64), dtype="float32")
y = x @ rng.random((64, 1), dtype="float32")
data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(8192).batch(64).repeat().prefetch(2)

encoder = keras.Sequential([keras.layers.Input((64,)), keras.layers.Dense(256, activation="relu")])
head = keras.Sequential([keras.layers.Input((256,)), keras.layers.Dense(1)])
optimizer = keras.optimizers.Adam(1e-3)


@tf.function
def train_step(batch, target):
    with tf.GradientTape() as tape:
        embedding = encoder(batch, training=True)
        loss = tf.reduce_mean(tf.square(head(embedding) - target))
    weights = encoder.trainable_variables + head.trainable_variables
    optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
    return loss, embedding


embeddings = []
end = time.monotonic() + SECONDS
for step, (batch, target) in enumerate(data):
    loss, embedding = train_step(batch, target)
    if step % 40 == 0:
        embeddings.append(embedding)
    if step % 2000 == 0:
        print(step, float(loss), flush=True)
    if time.monotonic() > end:
        break
