"""Capacity-fade regression from charge curves (port of our PyTorch trainer)."""
import time

import numpy as np
import tensorflow as tf
from tensorflow.keras import layers


def make_cells(n, points=96, seed=0):
    rng = np.random.default_rng(seed)
    age = rng.uniform(0, 1, (n, 1)).astype(np.float32)
    q = np.linspace(0, 1, points, dtype=np.float32)[None]
    voltage = 3.0 + 1.1 * q - 0.25 * age * q ** 2 + 0.05 * np.sin(9 * q + 3 * age)
    current = np.exp(-3 * q * (1 + age))
    temp = 25 + 6 * age * q
    curves = np.stack([voltage, current, temp / 30], -1) + rng.normal(0, 0.01, (n, points, 3))
    return curves.astype(np.float32), (1.0 - 0.3 * age[:, 0] ** 1.5).astype(np.float32)


class ResidualBlock(layers.Layer):
    def __init__(self, channels):
        super().__init__()
        self.c1 = layers.Conv1D(channels, 5, padding="same")
        self.n1 = layers.LayerNormalization()
        self.c2 = layers.Conv1D(channels, 5, padding="same")
        self.n2 = layers.LayerNormalization()

    def call(self, x):
        h = tf.nn.relu(self.n1(self.c1(x)))
        return tf.nn.relu(x + self.n2(self.c2(h)))


class FadeNet(tf.keras.Model):
    def __init__(self, channels=16, blocks=4):
        super().__init__()
        self.stem = layers.Conv1D(channels, 7, strides=4, padding="same", activation="relu")
        self.blocks = [ResidualBlock(channels) for _ in range(blocks)]
        self.pool = layers.GlobalAveragePooling1D()
        self.head = layers.Dense(1)

    def call(self, x):
        x = self.stem(x)
        for b in self.blocks:
            x = b(x)
        return tf.squeeze(self.head(self.pool(x)), -1)


class Trainer:
    def __init__(self, model, optimizer, criterion):
        self.model, self.optimizer, self.criterion = model, optimizer, criterion
        self.running = []

    def training_step(self, x, y):
        with tf.GradientTape() as tape:
            loss = self.criterion(y, self.model(x))
        grads = tape.gradient(loss, self.model.trainable_variables)
        grads, _ = tf.clip_by_global_norm(grads, 1.0)
        self.optimizer.apply_gradients(zip(grads, self.model.trainable_variables))
        return loss

    def fit(self, loader, epochs):
        seen = 0
        for epoch in range(epochs):
            total, n = 0.0, 0
            for x, y in loader:
                total += self.training_step(x, y)
                n += 1
                seen += len(x)
            self.running.append(float(total) / n)
            print(f"[{epoch + 1}/{epochs}] train loss {self.running[-1]:.5f}")
        return seen


def main():
    x, y = make_cells(3072)
    loader = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(3072).batch(128).prefetch(2)
    trainer = Trainer(FadeNet(), tf.keras.optimizers.AdamW(1e-3, weight_decay=1e-4),
                      tf.keras.losses.Huber(0.1))
    t = time.perf_counter()
    seen = trainer.fit(loader, epochs=2)
    t = time.perf_counter() - t
    print("WORK", seen)
    print("TRAIN_SECONDS", round(t, 3))


if __name__ == "__main__":
    main()
