"""Dead reckoning with a sextant: where is the ship after a day of sights? Days have 20 to 80 sights."""

import time

t_start = time.perf_counter()

import numpy as np
import tensorflow as tf

FEATURES, BATCH, WIDTH = 6, 48, 64


def voyages(count, sights, rng):
    heading = np.cumsum(rng.normal(0, 0.15, (count, sights)), axis=1)
    speed = 5 + np.cumsum(rng.normal(0, 0.05, (count, sights)), axis=1)
    drift = rng.normal(0, 0.6, (count, 2))
    north = np.cumsum(speed * np.cos(heading) + drift[:, :1], axis=1)
    east = np.cumsum(speed * np.sin(heading) + drift[:, 1:], axis=1)
    height = np.sin(north / 200) + rng.normal(0, 0.02, north.shape)
    azimuth = np.cos(east / 200) + rng.normal(0, 0.02, north.shape)
    seen = np.stack([np.cos(heading), np.sin(heading), speed / 5, height, azimuth, np.ones_like(height)], -1)
    return seen.astype("float32"), (np.stack([north, east], -1)[:, -1] / 200).astype("float32")


class Watch(tf.keras.layers.Layer):
    """Self attention and a small mixer, four hours long."""

    def __init__(self):
        super().__init__()
        self.attention = tf.keras.layers.MultiHeadAttention(4, WIDTH // 4)
        self.mixer = [tf.keras.layers.Dense(3 * WIDTH, activation="gelu"), tf.keras.layers.Dense(WIDTH)]
        self.norms = [tf.keras.layers.LayerNormalization() for _ in range(2)]

    def call(self, x):
        y = self.norms[0](x)
        x = x + self.attention(y, y, use_causal_mask=True)
        return x + self.mixer[1](self.mixer[0](self.norms[1](x)))


class Navigator(tf.keras.Model):
    def __init__(self, watches=3):
        super().__init__()
        self.into, self.out = tf.keras.layers.Dense(WIDTH), tf.keras.layers.Dense(2)
        self.watches = [Watch() for _ in range(watches)]

    def call(self, seen):
        x = self.into(seen)
        for watch in self.watches:
            x = watch(x)
        return self.out(tf.reduce_sum(x, axis=1) / 50.0)


class Logbook:
    def __init__(self):
        self.marks = {"start": t_start}

    def mark(self, what):
        self.marks[what] = time.perf_counter()

    def close(self):
        names = list(self.marks)
        for a, b in zip(names, names[1:]):
            print(f"{a:>8} -> {b:<8} {self.marks[b] - self.marks[a]:6.2f} s")
        print(f"all in {self.marks[names[-1]] - self.marks[names[0]]:.2f} s")


def embark(lengths):
    """The net and its step, ready for every length, so that no step has to wait at sea."""
    model, optimizer = Navigator(), tf.keras.optimizers.Adam(1e-3)
    model(tf.zeros((1, lengths[0], FEATURES)))
    optimizer.build(model.trainable_variables)

    @tf.function
    def sail(seen, place):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.reduce_sum(tf.square(model(seen) - place), -1))
        gradients, _ = tf.clip_by_global_norm(tape.gradient(loss, model.trainable_variables), 1.0)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    for sights in lengths:
        sail.get_concrete_function(
            tf.TensorSpec((BATCH, sights, FEATURES), tf.float32), tf.TensorSpec((BATCH, 2), tf.float32)
        )
    return sail


def main(steps=220):
    book, rng = Logbook(), np.random.default_rng(6)
    tf.keras.utils.set_random_seed(6)
    lengths = list(range(20, 81, 10))
    days = {sights: voyages(12 * BATCH, sights, rng) for sights in lengths}
    book.mark("data")
    sail = embark(lengths)
    book.mark("ready")
    for step in range(steps):
        seen, place = days[lengths[rng.integers(len(lengths))]]
        at = BATCH * rng.integers(12)
        loss = sail(tf.constant(seen[at : at + BATCH]), tf.constant(place[at : at + BATCH]))
        if step % 40 == 0:
            print(f"step {step:4d} loss {float(loss):.4f}")
    book.mark("end")
    book.close()
    print(f"{(book.marks['end'] - book.marks['ready']) / steps * 1e3:.1f} ms a step")


if __name__ == "__main__":
    main()
