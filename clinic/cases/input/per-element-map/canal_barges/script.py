# How long does a barge need through the lock flight?
# Regression on the lock keeper's log, log-minutes as target.
import math
import time

import numpy as np
import tensorflow as tf
import keras

SEED = 23
N_PASSAGES = 200_000
BATCH = 400
EPOCHS = 3

# draught m, length m, beam m, cargo t, month, hour, wind m/s, sill depth m, boats waiting
N_COLUMNS = 9


def keeper_log(n, seed):
    rng = np.random.default_rng(seed)
    draught = rng.normal(1.9, 0.4, n).clip(0.6, 3.2)
    length = rng.choice([23.0, 38.5, 55.0, 67.0, 80.0], n)
    beam = np.where(length > 50, 8.2, 5.05) + rng.normal(0, 0.05, n)
    cargo = rng.gamma(4.0, 90.0, n)
    month = rng.integers(0, 12, n)
    hour = rng.uniform(6, 20, n)
    wind = rng.weibull(2.0, n) * 5.0
    sill = rng.normal(2.9, 0.2, n) - 0.25 * np.cos(2 * np.pi * month / 12)
    waiting = rng.poisson(1.7, n)
    minutes = (9 + 0.11 * length + 6.5 * waiting + 0.35 * wind
               + 4.0 / np.maximum(sill - draught, 0.25) + 0.004 * cargo)
    minutes *= rng.lognormal(0, 0.08, n)
    rows = np.stack([draught, length, beam, cargo, month, hour, wind, sill, waiting], axis=1)
    return rows.astype(np.float32), minutes.astype(np.float32)


def engineer(row, minutes):
    draught, length, beam, cargo, month, hour, wind, sill, waiting = tf.unstack(
        row, num=N_COLUMNS, axis=-1)
    season = month * (2 * math.pi / 12)
    daytime = hour * (2 * math.pi / 24)
    under_keel = tf.maximum(sill - draught, 0.05)
    features = tf.stack([
        (draught - 1.9) / 0.4,
        length / 80.0,
        beam / 8.2,
        tf.math.log1p(cargo) - 5.5,
        cargo / (length * beam * draught),
        tf.sin(season),
        tf.cos(season),
        tf.sin(daytime),
        tf.cos(daytime),
        wind / 10.0,
        1.0 / (0.2 + under_keel),
        tf.sqrt(waiting),
    ], axis=-1)
    return features, tf.math.log(minutes)


rows, minutes = keeper_log(N_PASSAGES, SEED)
keras.utils.set_random_seed(SEED)

passages = (
    tf.data.Dataset.from_tensor_slices((rows, minutes))
    .shuffle(10_000, seed=SEED)
    .map(engineer, num_parallel_calls=tf.data.AUTOTUNE)
    .batch(BATCH, drop_remainder=True)
    .prefetch(tf.data.AUTOTUNE)
)

inputs = keras.Input((12,))
h = keras.layers.Dense(64, activation="gelu")(inputs)
h = keras.layers.Dense(64, activation="gelu")(h)
outputs = keras.layers.Dense(1)(h)
net = keras.Model(inputs, outputs)
optimizer = keras.optimizers.Adam(1e-3)


@tf.function
def update(x, y):
    with tf.GradientTape() as tape:
        estimate = tf.squeeze(net(x, training=True), axis=-1)
        loss = tf.reduce_mean(tf.square(estimate - y))
    grads = tape.gradient(loss, net.trainable_variables)
    optimizer.apply_gradients(zip(grads, net.trainable_variables))
    return loss


start = time.time()
for epoch in range(EPOCHS):
    for step, (x, y) in enumerate(passages):
        loss = update(x, y)
    print("epoch", epoch, "steps", step + 1, "last mse", float(loss))
print("TRAIN_SECONDS", round(time.time() - start, 2))
