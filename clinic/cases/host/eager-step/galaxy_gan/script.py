"""A small adversarial pair whose two updates run op by op."""
import os
import time

import numpy as np
import tensorflow as tf
from tensorflow.keras import layers

SMALL = os.environ.get("SLOWTRAIN_SMALL") == "1"
BATCH, STEPS = (16, 40) if SMALL else (64, 90)

rng = np.random.default_rng(7)
stamps = rng.random((1024, 32, 32, 1), dtype="float32")
maker = tf.keras.Sequential([
    layers.Input((64,)), layers.Dense(8 * 8 * 32, activation="relu"), layers.Reshape((8, 8, 32)),
    layers.Conv2DTranspose(32, 4, 2, padding="same", activation="relu"),
    layers.Conv2DTranspose(1, 4, 2, padding="same", activation="sigmoid"),
])
judge = tf.keras.Sequential([
    layers.Input((32, 32, 1)), layers.Conv2D(32, 4, 2, activation="relu"), layers.Conv2D(64, 4, 2, activation="relu"),
    layers.Flatten(), layers.Dense(1),
])
make_by, judge_by = tf.keras.optimizers.Adam(1e-4), tf.keras.optimizers.Adam(1e-4)
make_by.build(maker.trainable_variables)
judge_by.build(judge.trainable_variables)
cross_entropy = tf.keras.losses.BinaryCrossentropy(from_logits=True)


def train_step(real):
    noise = tf.random.normal((BATCH, 64))
    with tf.GradientTape(persistent=True) as tape:
        made = maker(noise, training=True)
        on_real, on_made = judge(real, training=True), judge(made, training=True)
        judge_loss = cross_entropy(tf.ones_like(on_real), on_real) + cross_entropy(tf.zeros_like(on_made), on_made)
        make_loss = cross_entropy(tf.ones_like(on_made), on_made)
    judge_by.apply_gradients(zip(tape.gradient(judge_loss, judge.trainable_variables), judge.trainable_variables))
    make_by.apply_gradients(zip(tape.gradient(make_loss, maker.trainable_variables), maker.trainable_variables))
    return judge_loss, make_loss


data = tf.data.Dataset.from_tensor_slices(stamps).shuffle(1024).batch(BATCH, drop_remainder=True).repeat().prefetch(2)
source = iter(data)
train_step(next(source))
t0 = time.perf_counter()
for step, real in zip(range(STEPS), source):
    losses = train_step(real)
    if step % 30 == 0:
        print(step, *(float(loss) for loss in losses))
print("last", float(losses[0]))
print("WORK", STEPS * BATCH)
print("TRAIN_SECONDS %.3f" % (time.perf_counter() - t0))
