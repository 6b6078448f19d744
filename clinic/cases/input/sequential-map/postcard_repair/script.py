"""Takes the blocks out of badly scanned postcards: patches are compressed at a random quality, a CNN undoes it."""
import time

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

SIDE, BATCH, EPOCHS = 224, 16, 10
CROP = 48


def postcards(n, seed=3):
    rng = np.random.default_rng(seed)
    cards = np.zeros((n, SIDE, SIDE, 3), np.float32)
    yy, xx = np.mgrid[0:SIDE, 0:SIDE] / SIDE
    for card in cards:
        card += rng.uniform(0, 1, 3) * yy[..., None] + rng.uniform(0, 1, 3) * (1 - yy[..., None])
        for _ in range(6):
            cx, cy, r = rng.uniform(0, 1, 3)
            card[np.hypot(xx - cx, yy - cy) < 0.25 * r] = rng.uniform(0, 1, 3)
        card += 0.03 * rng.normal(size=card.shape)
    return (np.clip(cards / cards.max((1, 2, 3), keepdims=True), 0, 1) * 255).astype(np.uint8)


def spoil(card):
    card = tf.image.random_flip_left_right(card)
    bad = tf.image.random_jpeg_quality(card, 8, 60)
    bad = tf.image.random_jpeg_quality(bad, 30, 90)
    both = tf.concat([card, bad], axis=-1)
    both = tf.image.random_crop(both, (CROP, CROP, 6))
    both = tf.cast(both, tf.float32) / 255.0
    return both[..., 3:], both[..., :3]


def loader(cards):
    ds = tf.data.Dataset.from_tensor_slices(cards)
    ds = ds.shuffle(len(cards))
    ds = ds.map(spoil)
    ds = ds.batch(BATCH, drop_remainder=True)
    return ds.prefetch(tf.data.AUTOTUNE)


class Deblock(keras.Model):
    def __init__(self):
        super().__init__()
        self.first = layers.Conv2D(12, 3, strides=2, padding="same", activation="relu")
        self.middle = layers.Conv2D(12, 3, padding="same", activation="relu")
        self.up = layers.Conv2DTranspose(3, 4, strides=2, padding="same")

    def call(self, x):
        return x + self.up(self.middle(self.first(x)))


keras.utils.set_random_seed(8)
cards = postcards(320)
train = loader(cards)
model = Deblock()
model.compile(optimizer=keras.optimizers.Adam(1e-3), loss="mae")
start = time.time()
model.fit(train, epochs=EPOCHS, shuffle=False, verbose=2)
print("WORK", EPOCHS * len(cards) // BATCH * BATCH)
print("TRAIN_SECONDS %.3f" % (time.time() - start))
