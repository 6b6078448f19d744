"""3D tumour segmentation, whole 128-cube volumes, two at a time."""
import argparse

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

CUBE = 128


def scans(n):
    rng = np.random.default_rng(71)
    vol = rng.integers(0, 1500, (n, CUBE, CUBE, CUBE, 1), dtype=np.int16)
    seg = (vol > 1400).astype(np.uint8)
    return vol, seg


def conv(x, f):
    for _ in range(2):
        x = layers.Conv3D(f, 3, padding="same", use_bias=False)(x)
        x = layers.GroupNormalization(8)(x)
        x = layers.ReLU()(x)
    return x


def vnet(widths=(32, 64, 128)):
    inp = keras.Input((CUBE, CUBE, CUBE, 1), dtype="int16")
    x = layers.Rescaling(1 / 750.0, offset=-1.0)(inp)
    skips = []
    for f in widths:
        x = conv(x, f)
        skips.append(x)
        x = layers.MaxPooling3D()(x)
    x = conv(x, 256)
    for f, s in zip(reversed(widths), reversed(skips)):
        x = layers.Conv3DTranspose(f, 2, strides=2)(x)
        x = conv(layers.Concatenate()([x, s]), f)
    return keras.Model(inp, layers.Conv3D(1, 1, activation="sigmoid", dtype="float32")(x))


def dice_loss(y_true, y_pred):
    y_true = tf.cast(y_true, tf.float32)
    inter = tf.reduce_sum(y_true * y_pred, axis=[1, 2, 3, 4])
    total = tf.reduce_sum(y_true + y_pred, axis=[1, 2, 3, 4])
    return 1.0 - tf.reduce_mean((2 * inter + 1.0) / (total + 1.0))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--volumes", type=int, default=80)
    ap.add_argument("--batch-size", type=int, default=2)
    ap.add_argument("--epochs", type=int, default=30)
    ap.add_argument("--eager", action="store_true")
    args = ap.parse_args()

    keras.mixed_precision.set_global_policy("mixed_float16")
    vol, seg = scans(args.volumes)
    ds = tf.data.Dataset.from_tensor_slices((vol, seg)).shuffle(32)
    ds = ds.batch(args.batch_size, drop_remainder=True).prefetch(2)

    model = vnet()
    model.compile(optimizer=keras.optimizers.Adam(2e-4), loss=dice_loss,
                  run_eagerly=args.eager)
    model.fit(ds, epochs=args.epochs, verbose=2)


if __name__ == "__main__":
    main()
