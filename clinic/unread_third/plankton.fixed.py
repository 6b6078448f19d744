"""Plankton imager: 20 taxa, grey images, strong augmentation against overfitting."""
import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

SIDE = 128
TAXA = 20
BATCH_SIZE = 128
EPOCHS = 15


def load_images(n=10_000):
    rng = np.random.default_rng(21)
    x = rng.integers(0, 256, (n, SIDE, SIDE, 1), dtype=np.uint8)
    y = rng.integers(0, TAXA, n).astype("int32")
    return x, y


augment = keras.Sequential([
    layers.RandomFlip("horizontal_and_vertical"),
    layers.RandomRotation(0.5, fill_mode="constant"),
    layers.RandomZoom(0.2, fill_mode="constant"),
    layers.RandomTranslation(0.1, 0.1, fill_mode="constant"),
    layers.RandomContrast(0.3),
], name="augment")


def prepare(x, y, training):
    ds = tf.data.Dataset.from_tensor_slices((x, y))
    if training:
        ds = ds.shuffle(len(x))
    ds = ds.batch(BATCH_SIZE)
    return ds.prefetch(tf.data.AUTOTUNE)


def make_model():
    inputs = keras.Input((SIDE, SIDE, 1))
    h = augment(inputs)
    h = layers.Rescaling(1.0 / 255)(h)
    for f in (32, 64, 128, 192):
        h = layers.Conv2D(f, 3, padding="same", use_bias=False)(h)
        h = layers.BatchNormalization()(h)
        h = layers.Activation("relu")(h)
        h = layers.MaxPooling2D(2)(h)
    h = layers.GlobalAveragePooling2D()(h)
    h = layers.Dropout(0.4)(h)
    return keras.Model(inputs, layers.Dense(TAXA, activation="softmax")(h))


def main():
    keras.utils.set_random_seed(4)
    x, y = load_images()
    cut = int(0.9 * len(x))
    train = prepare(x[:cut], y[:cut], training=True)
    val = prepare(x[cut:], y[cut:], training=False)
    model = make_model()
    model.compile(
        optimizer=keras.optimizers.SGD(0.05, momentum=0.9, nesterov=True),
        loss="sparse_categorical_crossentropy",
        metrics=["sparse_categorical_accuracy"])
    model.fit(train, validation_data=val, epochs=EPOCHS)


if __name__ == "__main__":
    main()
