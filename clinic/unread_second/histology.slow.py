import keras
import numpy as np
import tensorflow as tf
from keras import layers

keras.utils.set_random_seed(11)
PATCH = 192
BATCH = 64


def make_patches(n, seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, n).astype("float32")
    images = rng.integers(150, 255, (n, PATCH, PATCH, 3), dtype=np.uint8)
    for i in np.flatnonzero(labels):
        r, c = rng.integers(0, PATCH - 40, 2)
        images[i, r:r + 40, c:c + 40, 0] = 90
    return images, labels


def stain_augmenter():
    return keras.Sequential([
        layers.RandomFlip("horizontal_and_vertical"),
        layers.RandomRotation(0.5, fill_mode="reflect"),
        layers.RandomZoom((-0.2, 0.1), fill_mode="reflect"),
        layers.RandomTranslation(0.1, 0.1, fill_mode="reflect"),
        layers.RandomContrast(0.3),
    ], name="augment")


augment = stain_augmenter()


def pipeline(images, labels, training):
    ds = tf.data.Dataset.from_tensor_slices((images, labels))
    if training:
        ds = ds.shuffle(512)
    ds = ds.batch(BATCH, drop_remainder=training)
    if training:
        ds = ds.map(lambda x, y: (augment(x, training=True), y), num_parallel_calls=tf.data.AUTOTUNE)
    return ds.prefetch(tf.data.AUTOTUNE)


def build():
    inputs = keras.Input((PATCH, PATCH, 3))
    x = layers.Rescaling(1 / 255.0)(inputs)
    for i, width in enumerate((24, 48, 96, 128)):
        x = layers.Conv2D(width, 3, strides=2, padding="same", use_bias=False, name=f"conv{i}")(x)
        x = layers.BatchNormalization(name=f"bn{i}")(x)
        x = layers.Activation("relu", name=f"act{i}")(x)
    x = layers.GlobalAveragePooling2D()(x)
    x = layers.Dropout(0.2)(x)
    return keras.Model(inputs, layers.Dense(1, activation="sigmoid")(x))


x_train, y_train = make_patches(3000, 0)
x_val, y_val = make_patches(400, 1)

model = build()
model.compile(
    optimizer=keras.optimizers.Adam(1e-3),
    loss="binary_crossentropy",
    metrics=["accuracy", keras.metrics.AUC(name="auc")],
)
model.fit(
    pipeline(x_train, y_train, True),
    validation_data=pipeline(x_val, y_val, False),
    epochs=10,
    callbacks=[keras.callbacks.ReduceLROnPlateau(patience=3)],
    verbose=2,
)
