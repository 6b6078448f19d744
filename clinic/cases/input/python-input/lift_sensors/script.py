"""Next door fault of a lift from a sliding window over its controller's log."""
import argparse
import collections
import time

import numpy as np
import tensorflow as tf
from tensorflow.keras import layers

CHANNELS = 9


def controller_log(n, seed):
    rng = np.random.default_rng(seed)
    log = rng.normal(size=(n, CHANNELS))
    log[:, 0] = np.sin(np.arange(n) / 15) + 0.1 * log[:, 0]
    wear = np.convolve(np.abs(log[:, 1]) * (log[:, 0] > 0), np.ones(40) / 40, mode="same")
    return log.astype("float32"), (wear > np.quantile(wear, 0.8)).astype("float32")


def windows(log, fault, size):
    """Yields (window, label) for each row once the window is full."""
    recent = collections.deque(maxlen=size)
    for row, label in zip(log, fault):
        recent.append((row - row.mean()) / (row.std() + 1e-6))
        if len(recent) == size:
            yield np.stack(recent), label


def pipeline(log, fault, size, batch):
    ds = tf.data.Dataset.from_generator(
        lambda: windows(log, fault, size),
        output_signature=(
            tf.TensorSpec((size, CHANNELS), tf.float32),
            tf.TensorSpec((), tf.float32),
        ),
    )
    return ds.shuffle(2048).batch(batch, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


def network(size):
    x = inp = layers.Input((size, CHANNELS))
    for filters in (24, 32):
        x = layers.Conv1D(filters, 5, strides=2, padding="same", activation="relu")(x)
    x = layers.Flatten()(x)
    x = layers.Dense(64, activation="relu")(x)
    return tf.keras.Model(inp, layers.Dense(1, activation="sigmoid")(x))


if __name__ == "__main__":
    cli = argparse.ArgumentParser()
    cli.add_argument("--rows", type=int, default=11000)
    cli.add_argument("--window", type=int, default=48)
    cli.add_argument("--batch", type=int, default=128)
    cli.add_argument("--epochs", type=int, default=3)
    opt = cli.parse_args()

    log, fault = controller_log(opt.rows, seed=10)
    ds = pipeline(log, fault, opt.window, opt.batch)
    steps = (opt.rows - opt.window + 1) // opt.batch
    ds = ds.apply(tf.data.experimental.assert_cardinality(steps))
    model = network(opt.window)
    model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])
    begin = time.perf_counter()
    model.fit(ds, epochs=opt.epochs, shuffle=False, verbose=2)
    print("WORK", opt.epochs * steps * opt.batch)
    print("TRAIN_SECONDS %.3f" % (time.perf_counter() - begin))
