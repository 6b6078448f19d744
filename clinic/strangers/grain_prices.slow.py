"""Next-day grain price from sixty days of quotes, custom loop."""
import random

import numpy as np
import tensorflow as tf

random.seed(8)
tf.keras.utils.set_random_seed(8)
rng = np.random.default_rng(8)

DAYS, FIELDS, BATCH = 60, 5, 256

walk = np.cumsum(rng.normal(0, 0.01, (3000, FIELDS)), axis=0) + 5
quotes = [list(map(float, day)) for day in walk]


def draw_batch():
    starts = random.sample(range(len(quotes) - DAYS - 1), BATCH)
    windows = [quotes[s:s + DAYS] for s in starts]
    targets = [quotes[s + DAYS][3] - quotes[s + DAYS - 1][3] for s in starts]
    return windows, targets


model = tf.keras.Sequential([
    tf.keras.layers.Input((DAYS, FIELDS)),
    tf.keras.layers.LayerNormalization(),
    tf.keras.layers.Flatten(),
    tf.keras.layers.Dense(96, activation="relu"),
    tf.keras.layers.Dense(48, activation="relu"),
    tf.keras.layers.Dense(1),
])
optimizer = tf.keras.optimizers.Adam(3e-4)


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        pred = tf.squeeze(model(x, training=True), -1)
        loss = tf.reduce_mean(tf.abs(pred - y))
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
    return loss


total = 0.0
for step in range(1, 361):
    windows, targets = draw_batch()
    x = tf.convert_to_tensor(windows, dtype=tf.float32)
    y = tf.convert_to_tensor(targets, dtype=tf.float32)
    loss = train_step(x, y)
    if step % 60 == 0:
        print(f"step {step}: mae {float(loss):.4f}")
