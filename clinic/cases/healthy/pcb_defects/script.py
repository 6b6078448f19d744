"""Solder defects on circuit boards: small batches of board tiles, as few boards fit the labelling budget."""
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers

TILE, CLASSES, BATCH = 48, 6, 8


def boards(n, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, n).astype(np.int32)
    tiles = rng.integers(0, 160, (n, TILE, TILE, 3)).astype(np.uint8)
    for i, k in enumerate(labels):
        tiles[i, 6 * k:6 * k + 8, 10:30, k % 3] += 80
    return tiles, labels


def conv(x, filters, times):
    for _ in range(times):
        x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
    return layers.MaxPooling2D()(x)


def inspector():
    tile = keras.Input((TILE, TILE, 3), dtype="uint8")
    x = layers.Rescaling(1 / 127.5, offset=-1.0)(tile)
    x = conv(x, 64, 3)
    x = conv(x, 128, 2)
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(tile, layers.Dense(CLASSES)(x))


class EpochReport(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        first = self.model.layers[2].kernel.numpy()
        print(f"epoch {epoch}: first kernel spread {first.std():.4f}, loss {logs['loss']:.4f}")


def main():
    keras.utils.set_random_seed(0)
    tiles, labels = boards(BATCH * 16)
    data = (
        tf.data.Dataset.from_tensor_slices((tiles, labels))
        .shuffle(len(tiles), seed=0)
        .batch(BATCH, drop_remainder=True)
        .prefetch(tf.data.AUTOTUNE)
    )
    model = inspector()
    model.compile(keras.optimizers.Adam(3e-4), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    epochs = 4
    began = time.perf_counter()
    model.fit(data, epochs=epochs, verbose=0, callbacks=[EpochReport()])
    seconds = time.perf_counter() - began
    print("WORK", epochs * len(tiles))
    print(f"TRAIN_SECONDS {seconds:.3f}")


if __name__ == "__main__":
    main()
