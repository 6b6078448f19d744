"""A curriculum that traces: sequences grow by one word at a time, and their length is a Python number."""

import sys
import time

import keras
import numpy as np
import tensorflow as tf

SECONDS = 60 * float(sys.argv[1]) if len(sys.argv) > 1 else 600

rng = np.random.default_rng(0)
words = rng.integers(0, 1000, (4096, 2000)).astype("int32")
labels = rng.integers(0, 2, (4096, 1)).astype("float32")
data = tf.data.Dataset.from_tensor_slices((words, labels)).shuffle(1024).batch(32).repeat().prefetch(2)

model = keras.Sequential(
    [
        keras.layers.Embedding(1000, 32),
        keras.layers.Conv1D(32, 3, padding="same", activation="relu"),
        keras.layers.GlobalAveragePooling1D(),
        keras.layers.Dense(1),
    ]
)
optimizer = keras.optimizers.Adam(1e-3)
loss_of = keras.losses.BinaryCrossentropy(from_logits=True)


@tf.function
def train_step(batch, target, length):
    with tf.GradientTape() as tape:
        loss = loss_of(target, model(batch[:, :length], training=True))
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    return loss


model.build((None, 2000))
optimizer.build(model.trainable_variables)
end = time.monotonic() + SECONDS
for step, (batch, target) in enumerate(data):
    length = min(20 + step // 40, 2000)
    loss = train_step(batch, target, length)
    if step % 1000 == 0:
        print(step, length, float(loss), flush=True)
    if time.monotonic() > end:
        break
