"""Music genres from mel spectrograms, with a random gain per clip."""
import os
import tempfile
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers

GENRES, MELS, FRAMES = 8, 64, 96
BATCH = 16


def clips(n, seed):
    rng = np.random.default_rng(seed)
    genre = rng.integers(0, GENRES, size=n).astype(np.int32)
    t = np.arange(FRAMES) / FRAMES
    m = np.arange(MELS)[:, None] / MELS
    pattern = np.stack([np.cos(2 * np.pi * (2 + g) * t)[None, :] * np.exp(-m * (g % 3)) for g in range(GENRES)])
    x = pattern[genre].astype(np.float32) + 0.7 * rng.standard_normal((n, MELS, FRAMES), dtype=np.float32)
    return x[..., None], genre


_gain_rng = np.random.default_rng(12)


def random_gain(batch):
    gain = _gain_rng.uniform(0.7, 1.3, size=(len(batch), 1, 1, 1)).astype(np.float32)
    return batch * gain


def with_gain(x, y):
    shape = x.shape
    x = tf.numpy_function(random_gain, [x], tf.float32)
    x.set_shape(shape)
    return x, y


def residual(h, width):
    c = layers.Conv2D(width, 3, padding="same", activation="relu")(h)
    c = layers.Conv2D(width, 3, padding="same")(c)
    return layers.ReLU()(layers.Add()([h, c]))


def build_tagger():
    inputs = keras.Input((MELS, FRAMES, 1))
    h = layers.Conv2D(64, 7, strides=4, padding="same", activation="relu")(inputs)
    h = residual(h, 64)
    h = layers.Conv2D(128, 3, strides=2, padding="same", activation="relu")(h)
    h = residual(h, 128)
    h = layers.GlobalAveragePooling2D()(h)
    return keras.Model(inputs, layers.Dense(GENRES)(h))


class EpochLog(keras.callbacks.Callback):
    def __init__(self, path):
        super().__init__()
        self.path = path

    def on_epoch_end(self, epoch, logs=None):
        norm = sum(float(np.square(w).sum()) for w in self.model.get_weights())
        with open(self.path, "a") as f:
            f.write(f"{epoch},{logs['loss']:.5f},{norm:.3f}\n")


def main():
    keras.utils.set_random_seed(10)
    x, y = clips(640, seed=1)
    vx, vy = clips(48, seed=2)
    train = (tf.data.Dataset.from_tensor_slices((x, y)).shuffle(640, seed=5)
             .batch(BATCH, drop_remainder=True).map(with_gain, num_parallel_calls=2).prefetch(4))
    held_out = tf.data.Dataset.from_tensor_slices((vx, vy)).batch(48)

    model = build_tagger()
    model.compile(keras.optimizers.SGD(0.01, momentum=0.9),
                  keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                  metrics=["accuracy"])
    log = os.path.join(tempfile.mkdtemp(), "epochs.csv")

    epochs = 3
    start = time.perf_counter()
    model.fit(train, epochs=epochs, verbose=2, callbacks=[EpochLog(log)])
    seconds = time.perf_counter() - start
    print("held out:", model.evaluate(held_out, verbose=0))
    print("WORK", epochs * len(x) // BATCH * BATCH)
    print("TRAIN_SECONDS %.3f" % seconds)


if __name__ == "__main__":
    main()
