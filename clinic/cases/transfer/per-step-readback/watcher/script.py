"""Deep residual net for molecular descriptors, with a gradient-health log."""
import argparse

import numpy as np
import tensorflow as tf
from tensorflow import keras

layers = keras.layers


def build(depth, width):
    x = inp = keras.Input((40,))
    x = layers.Dense(width)(x)
    for _ in range(depth):
        r = layers.Dense(width, activation="relu")(layers.LayerNormalization()(x))
        x = layers.Add()([x, r])
    return keras.Model(inp, layers.Dense(1)(x))


class Health:
    def __init__(self):
        self.rows = []

    def note(self, variables, grads):
        row = {}
        for v, g in zip(variables, grads):
            row[v.path] = (float(tf.norm(g)), float(tf.reduce_mean(tf.abs(v))))
        self.rows.append(row)

    def worst(self):
        last = self.rows[-1]
        return max(last, key=lambda k: last[k][0])


def main(a):
    keras.utils.set_random_seed(a.seed)
    rng = np.random.default_rng(a.seed)
    x = rng.normal(size=(4096, 40)).astype("float32")
    y = np.tanh(x[:, :6].sum(1, keepdims=True)).astype("float32")
    ds = tf.data.Dataset.from_tensor_slices((x, y)).cache().shuffle(4096, seed=1).repeat()
    ds = ds.batch(64).prefetch(2)
    model = build(a.depth, a.width)
    opt = keras.optimizers.SGD(2e-4, momentum=0.9)
    opt.build(model.trainable_variables)
    mse = keras.losses.MeanSquaredError()

    @tf.function
    def step(xb, yb):
        with tf.GradientTape() as tape:
            loss = mse(yb, model(xb, training=True))
        grads = tape.gradient(loss, model.trainable_variables)
        opt.apply_gradients(zip(grads, model.trainable_variables))
        return loss, grads

    health = Health()
    for i, (xb, yb) in enumerate(ds.take(a.steps)):
        loss, grads = step(xb, yb)
        health.note(model.trainable_variables, grads)
    print("loss", float(loss), "largest gradient in", health.worst())


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--depth", type=int, default=14)
    p.add_argument("--width", type=int, default=96)
    p.add_argument("--steps", type=int, default=280)
    p.add_argument("--seed", type=int, default=0)
    main(p.parse_args())
