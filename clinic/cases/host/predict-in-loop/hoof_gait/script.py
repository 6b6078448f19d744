"""Who is this horse? Embeddings of stride recordings, learned with triplets."""
import time

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(31)
rng = np.random.default_rng(31)

HORSES, STRIDES, SENSORS = 120, 30, 48


def record_strides():
    gait = rng.normal(size=(HORSES, SENSORS))
    who = np.repeat(np.arange(HORSES), STRIDES)
    strides = gait[who] + 0.8 * rng.normal(size=(len(who), SENSORS))
    return strides.astype("float32"), who


def build_embedder():
    inp = keras.Input((SENSORS,))
    h = keras.layers.Dense(128, activation="gelu")(inp)
    h = keras.layers.Dense(128, activation="gelu")(h)
    h = keras.layers.Dense(32)(h)
    return keras.Model(inp, keras.layers.UnitNormalization()(h))


class Paddock:
    """Holds the recordings and hands out rows by horse."""

    def __init__(self, strides, who):
        self.strides, self.who = strides, who

    def rows_of(self, horse, n):
        return horse * STRIDES + rng.integers(0, STRIDES, n)

    def strangers(self, n):
        return rng.integers(0, len(self.who), n)


class NegativePicker:
    def __init__(self, embedder, paddock, pool=96):
        self.embedder, self.paddock, self.pool = embedder, paddock, pool

    def look(self, rows):
        return self.embedder.predict(self.paddock.strides[rows], verbose=0)

    def nearest_stranger(self, anchor_rows):
        pool = self.paddock.strangers(self.pool)
        both = self.look(np.concatenate([anchor_rows, pool]))
        a, p = both[: len(anchor_rows)], both[len(anchor_rows):]
        likeness = a @ p.T
        same = self.paddock.who[anchor_rows][:, None] == self.paddock.who[pool][None, :]
        likeness[same] = -2.0
        return pool[likeness.argmax(1)]


class TripletFeed:
    def __init__(self, paddock, picker, size):
        self.paddock, self.picker, self.size = paddock, picker, size

    def draw(self):
        horses = rng.integers(0, HORSES, self.size)
        anchor = np.array([self.paddock.rows_of(h, 1)[0] for h in horses])
        friend = np.array([self.paddock.rows_of(h, 1)[0] for h in horses])
        other = self.picker.nearest_stranger(anchor)
        s = self.paddock.strides
        return s[anchor], s[friend], s[other]


strides, who = record_strides()
embedder = build_embedder()
optimizer = keras.optimizers.Adam(1e-3)
paddock = Paddock(strides, who)
feed = TripletFeed(paddock, NegativePicker(embedder, paddock), size=32)


@tf.function(reduce_retracing=True)
def learn(a, p, n):
    with tf.GradientTape() as tape:
        za, zp, zn = (embedder(v, training=True) for v in (a, p, n))
        near = tf.reduce_sum((za - zp) ** 2, -1)
        far = tf.reduce_sum((za - zn) ** 2, -1)
        loss = tf.reduce_mean(tf.nn.relu(near - far + 0.3))
    grads = tape.gradient(loss, embedder.trainable_variables)
    optimizer.apply_gradients(zip(grads, embedder.trainable_variables))
    return loss


began = time.time()
for step in range(160):
    loss = learn(*feed.draw())
    if step % 40 == 39:
        print(f"{step + 1:4d} triplet loss {float(loss):.4f}")
print(f"loop {time.time() - began:.2f} s")
