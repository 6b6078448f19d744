"""Cloud masks; the tiles are large, so four of them fill the machine."""
import numpy as np
import tensorflow as tf
from keras import Input, Model, layers, losses, optimizers, utils


def tiles(count):
    rng = np.random.default_rng(13)
    radiance = rng.random((count, 128, 128, 4), dtype=np.float32)
    return radiance, (radiance[..., :1] > 0.7).astype("float32")


def masker():
    tile = Input((128, 128, 4))
    fine = layers.Conv2D(16, 3, padding="same", activation="relu")(tile)
    coarse = layers.Conv2D(32, 3, strides=2, padding="same", activation="relu")(fine)
    coarse = layers.Conv2D(32, 3, padding="same", activation="relu")(coarse)
    back = layers.Conv2DTranspose(16, 2, strides=2, activation="relu")(coarse)
    joined = layers.Concatenate()([fine, back])
    return Model(tile, layers.Conv2D(1, 1)(joined))


def main():
    utils.set_random_seed(13)
    data = (tf.data.Dataset.from_tensor_slices(tiles(96))
            .batch(4).cache().shuffle(24, seed=1).prefetch(tf.data.AUTOTUNE))
    model = masker()
    model.compile(optimizers.Adam(1e-3), losses.BinaryCrossentropy(from_logits=True))
    log = model.fit(data, epochs=4, verbose=0)
    print([round(v, 3) for v in log.history["loss"]])


if __name__ == "__main__":
    main()
