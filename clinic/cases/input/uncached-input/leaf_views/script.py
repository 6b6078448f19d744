import os
import tempfile

import numpy as np
import tensorflow as tf
import keras

keras.utils.set_random_seed(14)
SIDE, FULL = 48, 320


def photograph_field(folder, plants):
    rng = np.random.default_rng(14)
    leaf, root = [], []
    for i in range(plants):
        spot = np.full((FULL, FULL, 3), (60, 140, 50), "uint8")
        spot = spot + rng.integers(0, 60, spot.shape).astype("uint8")
        for kind, keep in (("leaf", leaf), ("root", root)):
            path = os.path.join(folder, f"{kind}_{i:04d}.jpg")
            tf.io.write_file(path, tf.io.encode_jpeg(spot, quality=92))
            keep.append(path)
    sick = (rng.random(plants) < 0.4).astype("float32")
    return leaf, root, sick


def load(path):
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    image = tf.image.resize(image, (SIDE, SIDE), antialias=True)
    return image / 255.0


def view(paths):
    return tf.data.Dataset.from_tensor_slices(paths).map(load, num_parallel_calls=tf.data.AUTOTUNE)


def field_dataset(folder):
    leaf, root, sick = photograph_field(folder, 160)
    ds = tf.data.Dataset.zip((view(leaf), view(root)))
    ds = tf.data.Dataset.zip((ds, tf.data.Dataset.from_tensor_slices(sick[:, None])))
    ds = ds.shuffle(160, seed=1)
    return ds.batch(16, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


def branch():
    return keras.Sequential([
        keras.layers.Conv2D(8, 3, strides=2, activation="relu"),
        keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
        keras.layers.GlobalAveragePooling2D(),
    ])


a, b = keras.Input((SIDE, SIDE, 3)), keras.Input((SIDE, SIDE, 3))
joined = keras.layers.Concatenate()([branch()(a), branch()(b)])
model = keras.Model([a, b], keras.layers.Dense(1, activation="sigmoid")(joined))
model.compile(keras.optimizers.Adam(1e-3), "binary_crossentropy")

with tempfile.TemporaryDirectory() as folder:
    log = model.fit(field_dataset(folder), epochs=24, verbose=0)
print("%.4f" % log.history["loss"][-1])
