"""Sleep stage classifier on wearable recordings that come as JSON lines."""
import json
import os
import random
import tempfile
import time

import numpy as np
import tensorflow as tf

STAGES, POINTS = 5, 960


def write_recordings(path, n=1500):
    rng = np.random.default_rng(9)
    stage = rng.integers(0, STAGES, n)
    t = np.arange(POINTS) / 32.0
    wave = np.sin(2 * np.pi * (0.5 + 1.7 * stage[:, None]) * t) + rng.normal(0, 0.8, (n, POINTS))
    with open(path, "w") as f:
        for s, w in zip(stage, np.round(wave, 2)):
            f.write(json.dumps({"stage": int(s), "signal": w.tolist()}) + "\n")


class Recordings:
    def __init__(self, path):
        with open(path) as f:
            self.rows = [json.loads(line) for line in f]

    def __len__(self):
        return len(self.rows)

    def batches(self, size):
        order = list(range(len(self.rows)))
        random.shuffle(order)
        for i in range(0, len(order) - size + 1, size):
            picked = order[i:i + size]
            signals = tf.stack([tf.constant(self.rows[j]["signal"], tf.float32) for j in picked])
            stages = tf.constant([self.rows[j]["stage"] for j in picked], tf.int32)
            yield signals, stages


def build():
    return tf.keras.Sequential([
        tf.keras.Input((POINTS,)),
        tf.keras.layers.Reshape((POINTS // 16, 16)),
        tf.keras.layers.Conv1D(32, 5, strides=2, activation="relu"),
        tf.keras.layers.Conv1D(32, 5, activation="relu"),
        tf.keras.layers.GlobalMaxPooling1D(),
        tf.keras.layers.Dense(64, activation="relu"),
        tf.keras.layers.Dense(STAGES),
    ])


def main():
    random.seed(0)
    tf.random.set_seed(0)
    folder = tempfile.mkdtemp()
    path = os.path.join(folder, "nights.jsonl")
    write_recordings(path)
    data = Recordings(path)
    model = build()
    optimizer = tf.keras.optimizers.Adam(1e-3)
    loss_fn = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    accuracy = tf.keras.metrics.SparseCategoricalAccuracy()

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            logits = model(x, training=True)
            loss = loss_fn(y, logits)
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))
        accuracy.update_state(y, logits)
        return loss

    seen, epochs = 0, 45
    begin = time.perf_counter()
    for epoch in range(epochs):
        accuracy.reset_state()
        for x, y in data.batches(128):
            loss = step(x, y)
            seen += 128
        if epoch % 9 == 0:
            print(f"epoch {epoch} loss {float(loss):.4f} acc {float(accuracy.result()):.3f}")
    print("WORK", seen)
    print("TRAIN_SECONDS", time.perf_counter() - begin)


if __name__ == "__main__":
    main()
