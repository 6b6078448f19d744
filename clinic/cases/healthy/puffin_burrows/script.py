"""Is the burrow in use? Thermal pictures of a puffin colony, with a loop of our own that reports now and then."""

import time

import numpy as np
import tensorflow as tf

PICTURES, SIDE, BATCH, EPOCHS = 2560, 32, 64, 16


def colony(seed=0):
    rng = np.random.default_rng(seed)
    used = rng.integers(2, size=PICTURES)
    y, x = np.mgrid[0:SIDE, 0:SIDE]
    cy, cx = rng.uniform(8, 24, (2, PICTURES, 1, 1))
    warm = np.exp(-((y - cy) ** 2 + (x - cx) ** 2) / rng.uniform(8, 30, (PICTURES, 1, 1)))
    ground = rng.normal(0, 0.3, (PICTURES, SIDE, SIDE)).cumsum(1) / 4
    pictures = ground + used[:, None, None] * warm
    return pictures.astype("float32")[..., None], used.astype("float32")


def eye():
    return tf.keras.Sequential(
        [
            tf.keras.Input((SIDE, SIDE, 1)),
            tf.keras.layers.Conv2D(24, 5, padding="same", activation="relu"),
            tf.keras.layers.MaxPooling2D(),
            tf.keras.layers.Conv2D(48, 3, padding="same", activation="relu"),
            tf.keras.layers.MaxPooling2D(),
            tf.keras.layers.Conv2D(64, 3, padding="same", activation="relu"),
            tf.keras.layers.GlobalAveragePooling2D(),
            tf.keras.layers.Dense(1),
        ]
    )


class Watch:
    def __init__(self):
        self.eye = eye()
        self.optimizer = tf.keras.optimizers.Adam(1e-3)
        self.criterion = tf.keras.losses.BinaryCrossentropy(from_logits=True)
        self.mean_loss = tf.keras.metrics.Mean()
        self.curve = []

    @tf.function
    def step(self, pictures, used):
        with tf.GradientTape() as tape:
            loss = self.criterion(used[:, None], self.eye(pictures, training=True))
        weights = self.eye.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
        self.mean_loss.update_state(loss)
        return loss

    def season(self, data):
        seen = 0
        for epoch in range(EPOCHS):
            began = time.perf_counter()
            steps = 0
            for pictures, used in data:
                loss = self.step(pictures, used)
                seen += 1
                steps += 1
                if seen % 50 == 0:
                    self.curve.append(float(loss.numpy()))
            took = time.perf_counter() - began
            print(f"epoch {epoch}: mean loss {float(self.mean_loss.result()):.4f}, {took / steps * 1e3:.1f} ms a step")
            self.mean_loss.reset_state()


if __name__ == "__main__":
    tf.keras.utils.set_random_seed(12)
    began = time.perf_counter()
    pictures, used = colony()
    data = tf.data.Dataset.from_tensor_slices((pictures, used))
    data = data.cache().shuffle(PICTURES, seed=1).batch(BATCH).prefetch(tf.data.AUTOTUNE)
    watch = Watch()
    watch.season(data)
    print("curve", [round(v, 3) for v in watch.curve])
    print(f"all in {time.perf_counter() - began:.2f} s")
