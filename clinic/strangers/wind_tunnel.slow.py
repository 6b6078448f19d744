"""Drag from pressure taps around a body in the tunnel."""
import numpy as np
import tensorflow as tf
import keras

TAPS = 256


def measure(runs):
    rng = np.random.default_rng(27)
    pressure = rng.normal(0.0, 1.0, size=(runs, TAPS))
    drag = np.sin(pressure[:, :16]).sum(axis=1, keepdims=True) / 4.0
    return pressure, drag


class Field:
    """Measured columns with the mean taken out; knows what a network on top of it should look like."""

    def __init__(self, pressure, drag):
        self.pressure = pressure - pressure.mean(axis=0)
        self.drag = drag

    @property
    def kind(self):
        return self.pressure.dtype.name

    def network(self, widths):
        tap = keras.Input((TAPS,), dtype=self.kind)
        x = tap
        for width in widths:
            x = keras.layers.Dense(width, activation="relu", dtype=self.kind)(x)
        return keras.Model(tap, keras.layers.Dense(1, dtype=self.kind)(x))

    def batches(self, size):
        ds = tf.data.Dataset.from_tensor_slices((self.pressure, self.drag))
        return ds.batch(size, drop_remainder=True).cache().prefetch(tf.data.AUTOTUNE)


def train(field, epochs):
    net = field.network([1024, 1024, 512])
    optimizer = keras.optimizers.SGD(1e-3, momentum=0.9)
    optimizer.build(net.trainable_variables)

    @tf.function
    def step(pressure, drag):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(net(pressure, training=True) - drag))
        optimizer.apply(tape.gradient(loss, net.trainable_variables))
        return loss

    for _ in range(epochs):
        for pressure, drag in field.batches(256):
            loss = step(pressure, drag)
    return float(loss)


if __name__ == "__main__":
    keras.utils.set_random_seed(27)
    print("loss", train(Field(*measure(4096)), epochs=5))
