"""Penguin call recogniser on mel patches."""
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers

SPECIES = ["adelie", "chinstrap", "gentoo", "king"]
BATCH_SIZE = 24
EPOCHS = 2


def mel_patches(n, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, len(SPECIES), n)
    band = np.arange(32)[None, :, None]
    x = np.exp(-((band - 5 - 6 * y[:, None, None]) ** 2) / 8) * rng.uniform(0.4, 1, (n, 1, 40))
    return (x + rng.normal(0, 0.2, (n, 32, 40)))[..., None].astype("float32"), y.astype("int32")


def to_dataset(x, y, training):
    ds = tf.data.Dataset.from_tensor_slices((x, y))
    if training:
        ds = ds.shuffle(len(x)).repeat()
    return ds.batch(BATCH_SIZE).prefetch(tf.data.AUTOTUNE)


def recogniser():
    inp = keras.Input((32, 40, 1))
    x = layers.Conv2D(12, 3, activation="relu")(inp)
    x = layers.MaxPooling2D()(x)
    x = layers.Conv2D(24, 3, activation="relu")(x)
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inp, layers.Dense(len(SPECIES), activation="softmax")(x))


x_train, y_train = mel_patches(360, 0)
x_val, y_val = mel_patches(240, 1)
train_ds = to_dataset(x_train, y_train, True)
val_ds = to_dataset(x_val, y_val, False)

model = recogniser()
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
steps = len(x_train)
print("training on", len(x_train), "calls of", len(SPECIES), "species")
start = time.time()
history = model.fit(train_ds, steps_per_epoch=steps, epochs=EPOCHS, validation_data=val_ds, verbose=2)
spent = time.time() - start

confusion = np.zeros((4, 4), int)
for xb, yb in val_ds:
    p = model.predict_on_batch(xb).argmax(1)
    np.add.at(confusion, (yb.numpy(), p), 1)
print(confusion)
print("WORK", steps * EPOCHS)
print("TRAIN_SECONDS %.2f" % spent)
