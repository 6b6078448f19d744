"""Bunching of city buses: 1-D convolutions over headway series, short and long lines in batches of their own."""
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers

LENGTHS = (160, 256)
BATCH, SIGNALS = 32, 10


def headways(length, n, rng):
    steps = rng.standard_normal((n, length, SIGNALS), dtype=np.float32)
    walk = np.cumsum(steps, axis=1) / np.sqrt(length)
    return walk, (walk[:, -1, 0] > walk[:, length // 2, 0]).astype(np.float32)[:, None]


class Bunching(keras.Model):
    def __init__(self, width=128):
        super().__init__()
        self.body = [layers.Conv1D(width, 7, padding="same", activation="relu") for _ in range(4)]
        self.pool = layers.GlobalAveragePooling1D()
        self.head = layers.Dense(1)

    def call(self, x):
        for layer in self.body:
            x = layer(x)
        return self.head(self.pool(x))


class Fitter:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer
        self.loss = keras.losses.BinaryCrossentropy(from_logits=True)
        self.running = tf.Variable(0.0)

    @tf.function
    def step(self, x, y):
        with tf.GradientTape() as tape:
            loss = self.loss(y, self.model(x, training=True))
        grads = tape.gradient(loss, self.model.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.model.trainable_variables))
        self.running.assign(0.9 * self.running + 0.1 * loss)


def stream(rng, batches):
    sets = []
    for length in LENGTHS:
        x, y = headways(length, BATCH * batches, rng)
        sets.append(tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH, drop_remainder=True).repeat())
    return tf.data.Dataset.choose_from_datasets(sets, tf.data.Dataset.range(len(LENGTHS)).repeat()).prefetch(2)


def main():
    keras.utils.set_random_seed(6)
    rng = np.random.default_rng(6)
    data = iter(stream(rng, batches=6))
    model = Bunching()
    model(np.zeros((1, LENGTHS[0], SIGNALS), np.float32))
    optimizer = keras.optimizers.Adam(5e-4)
    optimizer.build(model.trainable_variables)
    fitter = Fitter(model, optimizer)

    epochs, steps = 4, 11
    began = time.perf_counter()
    for epoch in range(epochs):
        for _ in range(steps):
            fitter.step(*next(data))
        print(f"epoch {epoch}: running loss {fitter.running.numpy():.4f}")
    seconds = time.perf_counter() - began
    print("WORK", epochs * steps * BATCH)
    print(f"TRAIN_SECONDS {seconds:.3f}")


if __name__ == "__main__":
    main()
