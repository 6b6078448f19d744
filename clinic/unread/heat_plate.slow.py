"""Physics-informed fit of steady heat flow on a plate."""
import argparse

import keras
import numpy as np
import tensorflow as tf


def initial(rng, fan_in, fan_out):
    scale = np.sqrt(2.0 / (fan_in + fan_out))
    return rng.normal(0.0, scale, size=(fan_in, fan_out))


class Field(tf.Module):
    def __init__(self, widths, seed=0):
        super().__init__()
        rng = np.random.default_rng(seed)
        self.kernels = [tf.Variable(initial(rng, a, b)) for a, b in zip(widths, widths[1:])]
        self.biases = [tf.Variable(tf.zeros_like(k[0])) for k in self.kernels]

    def __call__(self, points):
        h = tf.cast(points, self.kernels[0].dtype)
        for kernel, bias in zip(self.kernels[:-1], self.biases[:-1]):
            h = tf.tanh(h @ kernel + bias)
        return h @ self.kernels[-1] + self.biases[-1]


def residual(field, points):
    x, y = tf.split(tf.cast(points, field.kernels[0].dtype), 2, axis=1)
    with tf.GradientTape(persistent=True) as outer:
        outer.watch([x, y])
        with tf.GradientTape(persistent=True) as inner:
            inner.watch([x, y])
            u = field(tf.concat([x, y], axis=1))
        u_x, u_y = inner.gradient(u, x), inner.gradient(u, y)
    return outer.gradient(u_x, x) + outer.gradient(u_y, y)


def make_step(field, rate):
    slots = [tf.Variable(tf.zeros_like(v)) for v in field.trainable_variables]

    @tf.function
    def step(inside, border, value):
        with tf.GradientTape() as tape:
            flow = tf.reduce_mean(tf.square(residual(field, inside)))
            u = field(border)
            edge = tf.reduce_mean(tf.square(u - tf.cast(value, u.dtype)))
            loss = flow + 10.0 * edge
        grads = tape.gradient(loss, field.trainable_variables)
        for variable, grad, slot in zip(field.trainable_variables, grads, slots):
            slot.assign(0.9 * slot + grad)
            variable.assign_sub(rate * slot)
        return loss

    return step


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--points", type=int, default=20_000)
    parser.add_argument("--steps", type=int, default=8000)
    args = parser.parse_args()

    keras.utils.set_random_seed(1)
    inside = tf.random.uniform((args.points, 2))
    border = tf.concat([tf.random.uniform((2000, 1)), tf.zeros((2000, 1))], axis=1)
    value = tf.sin(np.pi * border[:, :1])
    step = make_step(Field([2, 256, 256, 256, 256, 1]), 1e-3)
    for i in range(args.steps):
        loss = step(inside, border, value)
        if i % 500 == 0:
            print(i, float(loss))


if __name__ == "__main__":
    main()
