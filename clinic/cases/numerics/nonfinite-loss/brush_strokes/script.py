"""Siamese network: are two macro photographs of brush strokes by the same hand?
Training goes on until the validation loss is good enough, or for MAX_EPOCHS."""
import time
import numpy as np
import keras
from keras import layers, ops

HANDS, PER_HAND, SIDE = 6, 50, 32
PAIRS, VAL_PAIRS, BATCH = 1536, 256, 64
MAX_EPOCHS, GOOD_ENOUGH = 8, 0.2


def strokes(rng):
    style = rng.normal(size=(HANDS, SIDE, SIDE, 1))
    noise = rng.normal(size=(HANDS, PER_HAND, SIDE, SIDE, 1))
    return (style[:, None] + 0.5 * noise).astype("float32")


def draw_pairs(photos, n, rng):
    same = rng.integers(0, 2, n)
    hand_a = rng.integers(0, HANDS, n)
    hand_b = np.where(same == 1, hand_a, (hand_a + rng.integers(1, HANDS, n)) % HANDS)
    a = photos[hand_a, rng.integers(0, PER_HAND, n)]
    b = photos[hand_b, rng.integers(0, PER_HAND, n)]
    return [a, b], same.astype("float32")[:, None]


def encoder():
    return keras.Sequential([
        keras.Input((SIDE, SIDE, 1)),
        layers.Conv2D(16, 3, padding="same", activation="relu"),
        layers.Conv2D(32, 3, strides=2, padding="same", activation="relu"),
        layers.Conv2D(32, 3, strides=2, padding="same", activation="relu"),
        layers.Flatten(),
        layers.Dense(24),
    ], name="encoder")


class Distance(layers.Layer):
    def call(self, pair):
        a, b = pair
        squared = ops.sum(ops.square(a - b), axis=-1, keepdims=True)
        return ops.sqrt(squared)


def contrastive(same, distance):
    near = same * distance
    far = (1.0 - same) * ops.square(ops.maximum(1.0 - distance, 0.0))
    return ops.mean(near + far)


class StopWhenGood(keras.callbacks.Callback):
    def __init__(self, target):
        super().__init__()
        self.target = target

    def on_epoch_end(self, epoch, logs=None):
        if logs["val_loss"] < self.target:
            print("good enough after epoch", epoch + 1)
            self.model.stop_training = True


keras.utils.set_random_seed(2)
rng = np.random.default_rng(0)
photos = strokes(rng)
x, y = draw_pairs(photos, PAIRS, rng)
xv, yv = draw_pairs(strokes(np.random.default_rng(0)), VAL_PAIRS, rng)

left, right = keras.Input((SIDE, SIDE, 1)), keras.Input((SIDE, SIDE, 1))
enc = encoder()
siamese = keras.Model([left, right], Distance()([enc(left), enc(right)]))
siamese.compile(keras.optimizers.Adam(1e-3), loss=contrastive)

t0 = time.perf_counter()
log = siamese.fit(x, y, validation_data=(xv, yv), batch_size=BATCH, epochs=MAX_EPOCHS,
                  callbacks=[StopWhenGood(GOOD_ENOUGH)], verbose=2)
seconds = time.perf_counter() - t0
print("epochs used:", len(log.epoch))
print("WORK", PAIRS)
print("TRAIN_SECONDS %.3f" % seconds)
