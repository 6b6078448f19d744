"""Remaining-life regression for rolling bearings from raw gateway lines."""
import argparse
import functools

import keras
import numpy as np
import tensorflow as tf

COLUMNS = 64


def tf_op(dtypes, shapes):
    """Let a plain function be used in a tf.data pipeline."""

    def wrap(fn):
        @functools.wraps(fn)
        def inner(*args):
            outs = tf.numpy_function(fn, args, dtypes)
            return tuple(tf.ensure_shape(o, s) for o, s in zip(outs, shapes))

        return inner

    return wrap


@tf_op([tf.float32, tf.float32], [(COLUMNS,), ()])
def decode_line(line):
    fields = line.decode().split(";")
    values = [float(v) / 100.0 for v in fields]
    x = np.array(values[:-1], np.float32)
    return x, np.float32(values[-1])


def gateway_dump(n, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(0, 100, (n, COLUMNS))
    y = np.abs(x[:, :8]).mean(1)
    table = np.column_stack([x, y])
    return [";".join("%.2f" % v for v in row) for row in table]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=9)
    parser.add_argument("--batch", type=int, default=128)
    args = parser.parse_args()

    keras.utils.set_random_seed(11)
    lines = gateway_dump(9_000, 3)
    ds = tf.data.Dataset.from_tensor_slices(lines)
    ds = ds.shuffle(len(lines), seed=5)
    ds = ds.map(decode_line, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.batch(args.batch).prefetch(tf.data.AUTOTUNE)

    net = keras.Sequential(
        [
            keras.Input((COLUMNS,)),
            keras.layers.Dense(96, activation="gelu"),
            keras.layers.Dense(96, activation="gelu"),
            keras.layers.Dense(1),
        ]
    )
    net.compile(optimizer=keras.optimizers.Adam(2e-3), loss="huber")
    hist = net.fit(ds, epochs=args.epochs, verbose=2)
    print("final loss", hist.history["loss"][-1])


if __name__ == "__main__":
    main()
