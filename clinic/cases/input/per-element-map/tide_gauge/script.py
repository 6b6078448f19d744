"""Next-hour forecast of a harbour's tide gauge from three days of readings."""
import numpy as np
import tensorflow as tf

layers = tf.keras.layers
HISTORY = 72
HORIZON = 6


def gauge(n, seed=5):
    rng = np.random.default_rng(seed)
    t = np.arange(n)
    level = np.sin(2 * np.pi * t / 12.42) + 0.4 * np.sin(2 * np.pi * t / 12.0)
    wind = rng.normal(0, 1, n).cumsum() * 0.01
    return np.stack([level + 0.1 * wind, wind, np.cos(2 * np.pi * t / 24)], 1).astype("float32")


def to_supervised(block):
    return block[:HISTORY], block[HISTORY:, 0]


def supervised(series, batch):
    ds = tf.data.Dataset.from_tensor_slices(series)
    ds = ds.window(HISTORY + HORIZON, shift=1, drop_remainder=True)
    ds = ds.flat_map(lambda w: w.batch(HISTORY + HORIZON, drop_remainder=True))
    ds = ds.map(to_supervised, num_parallel_calls=tf.data.AUTOTUNE)
    return ds.shuffle(512, seed=1).batch(batch, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


def forecaster():
    return tf.keras.Sequential([
        layers.Input((HISTORY, 3)),
        layers.Conv1D(24, 6, strides=3, activation="relu"),
        layers.Conv1D(24, 4, strides=2, activation="relu"),
        layers.Flatten(),
        layers.Dense(HORIZON),
    ])


series = gauge(9000)
series = (series - series.mean(0)) / series.std(0)
net = forecaster()
opt = tf.keras.optimizers.Adam(1e-3)
train = supervised(series, 64)


@tf.function
def update(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(net(x, training=True) - y))
    opt.apply_gradients(zip(tape.gradient(loss, net.trainable_variables), net.trainable_variables))
    return loss


for epoch in range(4):
    mean = tf.keras.metrics.Mean()
    for x, y in train:
        mean.update_state(update(x, y))
    print(f"pass {epoch}: mse {float(mean.result()):.4f}")
