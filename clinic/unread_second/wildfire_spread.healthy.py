import os
import tempfile

import keras
import numpy as np
import tensorflow as tf
from keras import layers

GRID, CHANNELS, BATCH = 32, 8, 256
SHARDS, PER_SHARD = 6, 2048


def write_shards(folder):
    rng = np.random.default_rng(10)
    for s in range(SHARDS):
        maps = rng.integers(0, 255, (PER_SHARD, GRID, GRID, CHANNELS), dtype=np.uint8)
        burned = (maps[..., 0:1] > 128) & (maps[..., 1:2] > 60)
        np.save(os.path.join(folder, f"maps_{s}.npy"), maps)
        np.save(os.path.join(folder, f"burned_{s}.npy"), burned.astype("uint8"))


class ShardReader:
    """Hands out whole batches, cut from memory-mapped shards in random order."""

    def __init__(self, folder, seed=0):
        self.maps = [np.load(os.path.join(folder, f"maps_{s}.npy"), mmap_mode="r") for s in range(SHARDS)]
        self.burned = [np.load(os.path.join(folder, f"burned_{s}.npy"), mmap_mode="r") for s in range(SHARDS)]
        self.rng = np.random.default_rng(seed)

    def __call__(self):
        blocks = [(s, b) for s in range(SHARDS) for b in range(0, PER_SHARD, BATCH)]
        self.rng.shuffle(blocks)
        for s, b in blocks:
            yield self.maps[s][b:b + BATCH], self.burned[s][b:b + BATCH]

    def dataset(self):
        ds = tf.data.Dataset.from_generator(
            self,
            output_signature=(
                tf.TensorSpec((BATCH, GRID, GRID, CHANNELS), tf.uint8),
                tf.TensorSpec((BATCH, GRID, GRID, 1), tf.uint8),
            ),
        )
        return ds.apply(tf.data.experimental.assert_cardinality(SHARDS * PER_SHARD // BATCH)).prefetch(4)


def conv(x, width):
    x = layers.Conv2D(width, 3, padding="same", use_bias=False)(x)
    return layers.ReLU()(layers.BatchNormalization()(x))


def unet():
    inputs = keras.Input((GRID, GRID, CHANNELS), dtype="uint8")
    x = layers.Rescaling(1 / 255.0)(inputs)
    skips = []
    for width in (32, 64, 128):
        x = conv(conv(x, width), width)
        skips.append(x)
        x = layers.MaxPooling2D()(x)
    x = conv(x, 256)
    for width, skip in zip((128, 64, 32), reversed(skips)):
        x = layers.Conv2DTranspose(width, 2, strides=2)(x)
        x = conv(layers.Concatenate()([x, skip]), width)
    return keras.Model(inputs, layers.Conv2D(1, 1)(x))


with tempfile.TemporaryDirectory() as folder:
    write_shards(folder)
    model = unet()
    model.compile(
        keras.optimizers.Adam(1e-3),
        loss=keras.losses.BinaryCrossentropy(from_logits=True),
    )
    model.fit(ShardReader(folder).dataset(), epochs=15, verbose=2)
