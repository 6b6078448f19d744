"""Defects in float glass: patches from the line camera, classified by a small ResNet."""
import keras
import numpy as np
import tensorflow as tf
from keras import layers

SIDE, BATCH = 48, 64


def patches(count, seed):
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 4, count).astype("int32")
    img = rng.normal(120, 20, (count, SIDE, SIDE, 1))
    for i, k in enumerate(kind):
        at = rng.integers(6, SIDE - 6)
        if k == 1:
            img[i, at - 2:at + 2] += 60
        elif k == 2:
            img[i, :, at - 2:at + 2] += 60
        elif k == 3:
            img[i, at - 5:at + 5, at - 5:at + 5] += 60
    return np.clip(img, 0, 255).astype("uint8"), kind


def block(x, width, stride):
    skip = layers.Conv2D(width, 1, strides=stride)(x)
    x = layers.Conv2D(width, 3, strides=stride, padding="same", activation="relu")(x)
    x = layers.Conv2D(width, 3, padding="same")(x)
    return layers.ReLU()(layers.Add()([x, skip]))


def build():
    inp = keras.Input((SIDE, SIDE, 1), dtype="uint8")
    x = layers.Rescaling(1 / 255.0)(inp)
    x = block(x, 16, 1)
    x = block(x, 32, 2)
    x = block(x, 64, 2)
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inp, layers.Dense(4)(x))


def flip(img, kind):
    return tf.image.random_flip_left_right(img), kind


img, kind = patches(2560, 1)
train = (
    tf.data.Dataset.from_tensor_slices((img, kind))
    .shuffle(2560)
    .batch(BATCH, drop_remainder=True)
    .map(flip, num_parallel_calls=tf.data.AUTOTUNE)
    .prefetch(tf.data.AUTOTUNE)
)
model = build()
model.compile(
    optimizer=keras.optimizers.Adam(1e-3),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
model.fit(
    train,
    epochs=3,
    verbose=2,
    callbacks=[keras.callbacks.ReduceLROnPlateau(monitor="loss", patience=1), keras.callbacks.TerminateOnNaN()],
)
