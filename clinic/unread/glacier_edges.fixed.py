"""Glacier outline segmentation."""
import keras
import numpy as np
import tensorflow as tf

SIDE = 64
MOMENTUM = 0.999


def block(x, width):
    for _ in range(2):
        x = keras.layers.Conv2D(width, 3, padding="same", use_bias=False)(x)
        x = keras.layers.BatchNormalization()(x)
        x = keras.layers.ReLU()(x)
    return x


def outline_net():
    inputs = keras.Input((SIDE, SIDE, 4))
    skips, x = [], inputs
    for width in (32, 64, 128, 256):
        x = block(x, width)
        skips.append(x)
        x = keras.layers.MaxPooling2D()(x)
    x = block(x, 512)
    for skip, width in zip(reversed(skips), (256, 128, 64, 32)):
        x = keras.layers.UpSampling2D()(x)
        x = block(keras.layers.Concatenate()([x, skip]), width)
    return keras.Model(inputs, keras.layers.Conv2D(1, 1)(x))


def patches(count):
    rng = np.random.default_rng(6)
    x = rng.random((count, SIDE, SIDE, 4), dtype=np.float32)
    y = (x[..., :1] > 0.5).astype(np.float32)
    ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(1024)
    return ds.batch(32, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


def main():
    model = outline_net()
    model.compile(
        optimizer=keras.optimizers.Adam(1e-3, use_ema=True, ema_momentum=MOMENTUM),
        loss=keras.losses.BinaryCrossentropy(from_logits=True),
    )
    model.fit(patches(6400), epochs=8, verbose=2)
    model.save("outline.keras")


if __name__ == "__main__":
    main()
