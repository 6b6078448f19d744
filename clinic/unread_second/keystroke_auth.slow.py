"""Who is typing?  User identification from keystroke timing sequences."""
import argparse

import keras
import numpy as np
import tensorflow as tf
from keras import layers

USERS, STEPS, CHANNELS = 40, 200, 5


def sessions(n, seed):
    rng = np.random.default_rng(seed)
    style = np.random.default_rng(99).gamma(4.0, 0.03, (USERS, CHANNELS))
    who = rng.integers(0, USERS, n)
    timing = rng.gamma(3.0, style[who][:, None, :] / 3.0, (n, STEPS, CHANNELS))
    return np.log(timing + 1e-3).astype("float32"), who.astype("int32")


def dataset(n, seed, batch, training):
    ds = tf.data.Dataset.from_tensor_slices(sessions(n, seed))
    if training:
        ds = ds.shuffle(n)
    return ds.batch(batch, drop_remainder=training).prefetch(tf.data.AUTOTUNE)


class SequenceEncoder(layers.Layer):
    def __init__(self, units, depth, dropout, **kwargs):
        super().__init__(**kwargs)
        self.norm = layers.LayerNormalization()
        self.stack = [
            layers.GRU(
                units,
                return_sequences=i < depth - 1,
                dropout=dropout,
                reset_after=False,
                kernel_initializer="glorot_uniform",
                recurrent_initializer="orthogonal",
            )
            for i in range(depth)
        ]

    def call(self, x, training=False):
        x = self.norm(x)
        for rnn in self.stack:
            x = rnn(x, training=training)
        return x


def build(args):
    inputs = keras.Input((STEPS, CHANNELS))
    x = SequenceEncoder(args.units, args.depth, args.dropout)(inputs)
    x = layers.Dense(args.units, activation="relu")(x)
    return keras.Model(inputs, layers.Dense(USERS)(x))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--units", type=int, default=128)
    p.add_argument("--depth", type=int, default=2)
    p.add_argument("--dropout", type=float, default=0.1)
    p.add_argument("--batch", type=int, default=128)
    p.add_argument("--epochs", type=int, default=5)
    args = p.parse_args()

    model = build(args)
    model.compile(
        keras.optimizers.Adam(1e-3, clipnorm=1.0),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    model.fit(
        dataset(12_000, 0, args.batch, True),
        validation_data=dataset(1_500, 1, args.batch, False),
        epochs=args.epochs,
        verbose=2,
    )


if __name__ == "__main__":
    main()
