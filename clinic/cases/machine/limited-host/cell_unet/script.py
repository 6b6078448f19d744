"""Small U-Net that outlines cells in 64x64 tiles."""
import os
import random

import numpy as np
import tensorflow as tf
import keras
from keras import layers


def make_reproducible(seed=1234):
    """Same seed, same curve."""
    os.environ["PYTHONHASHSEED"] = str(seed)
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    random.seed(seed)
    np.random.seed(seed)
    keras.utils.set_random_seed(seed)


def tiles(n, size=64):
    yy, xx = np.mgrid[:size, :size].astype("float32")
    masks = np.zeros((n, size, size), bool)
    for _ in range(4):
        cy, cx = np.random.uniform(8, size - 8, (2, n, 1, 1))
        r = np.random.uniform(4, 10, (n, 1, 1))
        masks |= (yy - cy) ** 2 + (xx - cx) ** 2 < r ** 2
    noise = np.random.normal(0, 0.3, masks.shape)
    images = 0.6 * masks + noise + 0.2 * np.sin(xx / 9.0)
    return images[..., None].astype("float32"), masks[..., None].astype("float32")


def double_conv(x, filters):
    for _ in range(2):
        x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
    return x


def unet(size=64, base=16, depth=2):
    inp = keras.Input((size, size, 1))
    x, skips = inp, []
    for d in range(depth):
        x = double_conv(x, base * 2 ** d)
        skips.append(x)
        x = layers.MaxPooling2D()(x)
    x = double_conv(x, base * 2 ** depth)
    for d in reversed(range(depth)):
        x = layers.UpSampling2D()(x)
        x = layers.Concatenate()([x, skips[d]])
        x = double_conv(x, base * 2 ** d)
    return keras.Model(inp, layers.Conv2D(1, 1)(x), name="unet")


def soft_dice(y_true, y_pred):
    p = tf.sigmoid(y_pred)
    inter = tf.reduce_sum(p * y_true, axis=(1, 2, 3))
    total = tf.reduce_sum(p + y_true, axis=(1, 2, 3))
    return tf.reduce_mean((2 * inter + 1.0) / (total + 1.0))


def segmentation_loss(y_true, y_pred):
    bce = tf.nn.sigmoid_cross_entropy_with_logits(labels=y_true, logits=y_pred)
    return tf.reduce_mean(bce) + 1.0 - soft_dice(y_true, y_pred)


def main():
    make_reproducible()
    images, masks = tiles(320)
    ds = tf.data.Dataset.from_tensor_slices((images, masks))
    ds = ds.shuffle(320).batch(8, drop_remainder=True).prefetch(2)
    model = unet()
    model.compile(keras.optimizers.Adam(1e-3), loss=segmentation_loss, metrics=[soft_dice])
    model.fit(ds, epochs=4, verbose=2)


if __name__ == "__main__":
    main()
