# Orchid species from greenhouse photos: frozen backbone, new head.
import os
import tempfile
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers

SIZE, CLASSES, N = 72, 12, 400
BATCH = 32
EPOCHS = 7


def backbone():
    x = inp = keras.Input((SIZE, SIZE, 3))
    for i, width in enumerate((24, 48, 64)):
        x = layers.Conv2D(width, 3, padding="same", activation="relu", name=f"c{i}a")(x)
        x = layers.Conv2D(width, 3, padding="same", activation="relu", name=f"c{i}b")(x)
        x = layers.MaxPooling2D(name=f"p{i}")(x)
    return keras.Model(inp, layers.GlobalAveragePooling2D()(x), name="flora_base")


def fake_photos(n, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, n)
    tint = rng.integers(30, 220, (CLASSES, 1, 1, 3))
    noise = rng.integers(-30, 30, (n, SIZE, SIZE, 3), dtype=np.int16)
    return np.clip(tint[labels] + noise, 0, 255).astype("uint8"), labels.astype("int32")


workdir = tempfile.mkdtemp()
weights = os.path.join(workdir, "flora.weights.h5")
keras.utils.set_random_seed(11)
backbone().save_weights(weights)       # stands for the downloaded checkpoint

photos, species = fake_photos(N)
base = backbone()
base.load_weights(weights)
base.trainable = False


def embed(img, label):
    img = tf.cast(img, tf.float32) / 127.5 - 1.0
    return base(img, training=False), label


ds = tf.data.Dataset.from_tensor_slices((photos, species)).batch(BATCH)
ds = ds.map(embed)
ds = ds.unbatch().shuffle(N).batch(BATCH).prefetch(2)

head = keras.Sequential([
    keras.Input((64,)),
    layers.Dense(1024, activation="gelu"),
    layers.Dropout(0.3),
    layers.Dense(1024, activation="gelu"),
    layers.Dropout(0.3),
    layers.Dense(CLASSES, activation="softmax"),
])
head.compile(keras.optimizers.Adam(1e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])

start = time.time()
history = head.fit(ds, epochs=EPOCHS, verbose=2)
elapsed = time.time() - start

full = keras.Sequential([base, head])
print("one photo ->", int(full(photos[:1].astype("float32") / 127.5 - 1.0).numpy().argmax()))
print("best", max(history.history["accuracy"]))
print("WORK", N * EPOCHS)
print("TRAIN_SECONDS %.2f" % elapsed)
