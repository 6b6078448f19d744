"""Land-use tiles: PNG tiles are decoded and reduced to 64x64, then a small CNN."""
import os
import tempfile
import time

import numpy as np
import tensorflow as tf
import keras

folder = os.path.join(tempfile.gettempdir(), "tiles_png_256")
os.makedirs(folder, exist_ok=True)
rng = np.random.default_rng(8)
COUNT, BATCH = 240, 16
for i in range(COUNT):
    name = os.path.join(folder, f"tile_{i:03d}.png")
    if not os.path.exists(name):
        base = tf.image.resize(rng.integers(0, 255, (64, 64, 3)).astype("float32"), (256, 256))
        tf.io.write_file(name, tf.io.encode_png(tf.cast(base, tf.uint8)))
labels = rng.integers(0, 4, COUNT)


def read_tile(name, label):
    tile = tf.io.decode_png(tf.io.read_file(name), channels=3)
    tile = tf.image.resize(tile, (64, 64), method="area")
    tile = tf.image.per_image_standardization(tile)
    return tf.ensure_shape(tile, (64, 64, 3)), label


names = sorted(tf.io.gfile.glob(folder + "/*.png"))
train = (tf.data.Dataset.from_tensor_slices((names, labels))
         .map(read_tile, num_parallel_calls=tf.data.AUTOTUNE)
         .shuffle(COUNT)
         .batch(BATCH)
         .prefetch(tf.data.AUTOTUNE))

model = keras.Sequential([
    keras.Input((64, 64, 3)),
    keras.layers.Conv2D(8, 3, strides=2, activation="relu"),
    keras.layers.Conv2D(8, 3, strides=2, activation="relu"),
    keras.layers.GlobalMaxPooling2D(),
    keras.layers.Dense(4, activation="softmax"),
])
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train, epochs=1, verbose=2)
t0 = time.perf_counter()
model.fit(train, epochs=16, initial_epoch=1, verbose=2)
seconds = time.perf_counter() - t0
print("WORK", 15 * COUNT)
print("TRAIN_SECONDS %.3f" % seconds)
