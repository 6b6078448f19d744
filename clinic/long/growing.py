"""A loop whose Python grows: the smoothed loss is made anew from all losses so far, in every step."""

import sys
import time

import keras
import numpy as np
import tensorflow as tf

SECONDS = 60 * float(sys.argv[1]) if len(sys.argv) > 1 else 600

rng = np.random.default_rng(0)
x = rng.random((8192, 64), dtype="float32")
y = x @ rng.random((64, 1), dtype="float32")
data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(8192).batch(256).repeat().prefetch(2)

model = keras.Sequential(
    [
        keras.layers.Input((64,)),
        keras.layers.Dense(512, activation="relu"),
        keras.layers.Dense(512, activation="relu"),
        keras.layers.Dense(1),
    ]
)
optimizer = keras.optimizers.Adam(1e-3)


@tf.function
def train_step(batch, target):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(batch, training=True) - target))
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    return loss


def smoothed(losses, keep=0.99):
    value = losses[0]
    for loss in losses:
        value = keep * value + (1 - keep) * loss
    return value


losses = []
end = time.monotonic() + SECONDS
for step, (batch, target) in enumerate(data):
    losses.append(float(train_step(batch, target)))
    shown = smoothed(losses)
    if step % 1000 == 0:
        print(step, shown, flush=True)
    if time.monotonic() > end:
        break
