"""Fungus species on agar plates. A wide residual network, trained from scratch."""
import numpy as np
import tensorflow as tf
import keras
from keras import layers

IMAGE, CLASSES, BATCH = 64, 10, 16


def plates(n, seed=21):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, CLASSES, n).astype("int32")
    colour = rng.uniform(60, 200, (CLASSES, 1, 1, 3))
    x = colour[y] + rng.normal(0, 40, (n, IMAGE, IMAGE, 3))
    return np.clip(x, 0, 255).astype("uint8"), y


def wide_block(x, filters, stride):
    shortcut = x
    if stride > 1 or x.shape[-1] != filters:
        shortcut = layers.Conv2D(filters, 1, strides=stride)(x)
    h = layers.BatchNormalization()(x)
    h = layers.Conv2D(filters, 3, strides=stride, padding="same", activation="relu")(h)
    h = layers.BatchNormalization()(h)
    h = layers.Conv2D(filters, 3, padding="same")(h)
    return layers.ReLU()(layers.Add()([h, shortcut]))


def wide_resnet():
    image = keras.Input((IMAGE, IMAGE, 3), dtype="uint8")
    x = layers.Rescaling(1 / 127.5, offset=-1)(image)
    x = layers.RandomFlip()(x)
    x = layers.Conv2D(64, 5, strides=2, padding="same", activation="relu")(x)
    for filters, stride in [(96, 1), (192, 2), (192, 1), (384, 2), (384, 1)]:
        x = wide_block(x, filters, stride)
    x = layers.GlobalAveragePooling2D()(x)
    x = layers.Dropout(0.3)(x)
    return keras.Model(image, layers.Dense(CLASSES, activation="softmax")(x))


if __name__ == "__main__":
    keras.utils.set_random_seed(21)
    train = tf.data.Dataset.from_tensor_slices(plates(BATCH * 12))
    train = train.shuffle(256, seed=1).batch(BATCH).prefetch(tf.data.AUTOTUNE)
    net = wide_resnet()
    print("parameters", net.count_params())
    net.compile(
        optimizer=keras.optimizers.SGD(0.02, momentum=0.9, nesterov=True),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    net.fit(train, epochs=1, verbose=2)
