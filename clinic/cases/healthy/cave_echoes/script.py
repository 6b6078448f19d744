"""Bat species from echolocation sequences of any length."""
import time

import numpy as np
import tensorflow as tf

SPECIES, BINS, BATCH, STEPS = 6, 64, 32, 140


def sequences(steps, seed=12):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        length = int(rng.integers(80, 200))
        species = rng.integers(0, SPECIES, BATCH).astype("int32")
        calls = rng.normal(0, 1, (BATCH, length, BINS)).astype("float32")
        calls[np.arange(BATCH), :, 8 * species] += 1.5
        yield calls, species


class EchoNet(tf.Module):
    def __init__(self):
        super().__init__()
        self.body = tf.keras.Sequential([
            tf.keras.Input((None, BINS)),
            tf.keras.layers.Conv1D(128, 5, padding="same", activation="relu"),
            tf.keras.layers.Conv1D(128, 5, padding="same", activation="relu"),
            tf.keras.layers.Conv1D(128, 5, padding="same", activation="relu"),
            tf.keras.layers.GlobalAveragePooling1D(),
            tf.keras.layers.Dense(SPECIES),
        ])
        self.opt = tf.keras.optimizers.Adam(1e-3)
        self.ce = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function(input_signature=[
        tf.TensorSpec((BATCH, None, BINS), tf.float32),
        tf.TensorSpec((BATCH,), tf.int32),
    ])
    def learn(self, calls, species):
        with tf.GradientTape() as tape:
            loss = self.ce(species, self.body(calls, training=True))
        variables = self.body.trainable_variables
        self.opt.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss


def main():
    ds = tf.data.Dataset.from_generator(
        lambda: sequences(STEPS),
        output_signature=(
            tf.TensorSpec((BATCH, None, BINS), tf.float32),
            tf.TensorSpec((BATCH,), tf.int32),
        ),
    ).prefetch(4)
    net = EchoNet()
    start = time.time()
    for step, (calls, species) in enumerate(ds, 1):
        loss = net.learn(calls, species)
        if step % 25 == 0:
            print(f"{step:4d} {float(loss):.4f} {time.time() - start:.1f} s")


if __name__ == "__main__":
    main()
