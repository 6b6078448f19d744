"""Rain-rate nowcasting from radar patches; custom loop with early stopping on a held-out season."""
import time

import numpy as np
import tensorflow as tf
from keras import Sequential, layers, losses, optimizers


def radar(n, seed):
    r = np.random.default_rng(seed)
    base = r.gamma(0.5, 1.0, (n, 16, 16, 1)).astype(np.float32)
    past = np.concatenate([np.roll(base, s, axis=2) * (1 - 0.1 * s) for s in range(4)], -1)
    future = np.roll(base, -1, axis=2).mean((1, 2, 3), keepdims=False)
    return past, np.log1p(future)[:, None].astype(np.float32)


class Patience:
    def __init__(self, rounds):
        self.best, self.bad, self.rounds = np.inf, 0, rounds

    def __call__(self, value):
        if value < self.best:
            self.best, self.bad = value, 0
        else:
            self.bad += 1
        return self.bad >= self.rounds


net = Sequential([
    layers.Input((16, 16, 4)),
    layers.Conv2D(16, 3, activation="relu", padding="same"),
    layers.Conv2D(32, 3, strides=2, activation="relu", padding="same"),
    layers.GlobalAveragePooling2D(),
    layers.Dense(32, activation="relu"),
    layers.Dense(1),
])
huber = losses.Huber()
opt = optimizers.Adam(5e-4)

train_x, train_y = radar(8000, 1)
season_x, season_y = radar(6000, 2)
train = (tf.data.Dataset.from_tensor_slices((train_x, train_y)).cache().shuffle(8000).repeat().batch(32).prefetch(4))
season = tf.data.Dataset.from_tensor_slices((season_x, season_y)).batch(256).cache().prefetch(2)


@tf.function
def fit_batch(x, y):
    with tf.GradientTape() as tape:
        loss = huber(y, net(x, training=True))
    opt.apply_gradients(zip(tape.gradient(loss, net.trainable_variables), net.trainable_variables))
    return loss


@tf.function
def score_batch(x, y):
    return tf.reduce_sum(tf.square(net(x, training=False) - y))


CHECK = 8
STEPS = 320
stop = Patience(rounds=400)
t0 = time.perf_counter()
for step, (x, y) in enumerate(train.take(STEPS), 1):
    loss = fit_batch(x, y)
    if step % CHECK == 0:
        mse = float(sum(score_batch(a, b) for a, b in season)) / len(season_x)
        if stop(mse):
            break
    if step % 80 == 0:
        print(f"step {step} loss {float(loss):.4f} best season mse {stop.best:.4f} ({time.perf_counter() - t0:.1f}s)")
