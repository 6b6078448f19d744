"""Layer type along a glacier drill core. Each epoch reads one core file through py_function."""
import os
import tempfile

import numpy as np
import tensorflow as tf
import keras
from keras import layers

DEPTH, CHANNELS = 256, 12
PIECES, BATCH, CORES = 640, 32, 5


def drill(folder):
    rng = np.random.default_rng(800)
    paths = []
    for c in range(CORES):
        kind = rng.integers(0, 4, PIECES).astype("int32")
        x = rng.normal(size=(PIECES, DEPTH, CHANNELS)).astype("float32")
        x[:, :, :4] += np.eye(4, dtype="float32")[kind][:, None] * 0.6
        paths.append(os.path.join(folder, f"core{c}.npz"))
        np.savez(paths[-1], x=x, kind=kind)
    return paths


def read_core(path):
    with np.load(path.numpy().decode()) as f:
        return f["x"], f["kind"]


def pieces_of(path):
    x, kind = tf.py_function(read_core, [path], [tf.float32, tf.int32])
    x.set_shape([PIECES, DEPTH, CHANNELS])
    kind.set_shape([PIECES])
    return tf.data.Dataset.from_tensor_slices((x, kind))


def pipeline(paths):
    ds = tf.data.Dataset.from_tensor_slices(paths)
    ds = ds.flat_map(pieces_of)
    ds = ds.shuffle(128, seed=8)
    return ds.batch(BATCH).prefetch(tf.data.AUTOTUNE)


def block(x, filters):
    h = layers.Conv1D(filters, 7, padding="same", activation="relu")(x)
    h = layers.Conv1D(filters, 7, padding="same", activation="relu")(h)
    return layers.MaxPooling1D(2)(layers.Concatenate()([x, h]))


def core_net():
    inp = keras.Input((DEPTH, CHANNELS))
    x = inp
    for filters in (48, 64, 64):
        x = block(x, filters)
    x = layers.GlobalAveragePooling1D()(x)
    return keras.Model(inp, layers.Dense(4, activation="softmax")(x))


def main():
    keras.utils.set_random_seed(800)
    with tempfile.TemporaryDirectory() as folder:
        paths = drill(folder)
        model = core_net()
        model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
        model.fit(pipeline(paths), epochs=1, verbose=2)
        print("last core", model.evaluate(pipeline(paths[-1:]), verbose=0))


if __name__ == "__main__":
    main()
