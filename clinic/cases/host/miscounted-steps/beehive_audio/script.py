"""Queen/no queen from hive sound. Stage 1: autoencoder on all clips. Stage 2: classifier on the labelled ones, best epoch kept."""
import os
import tempfile

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

BATCH = 32
FRAMES, MELS = 64, 40


class HiveData:
    def __init__(self, n=1600, seed=4):
        rng = np.random.default_rng(seed)
        self.y = rng.integers(0, 2, n).astype("float32")
        hum = np.sin(np.arange(FRAMES)[:, None] * np.linspace(0.1, 1.0, MELS)[None])
        self.x = (rng.normal(size=(n, FRAMES, MELS)) + 0.6 * self.y[:, None, None] * hum).astype("float32")
        cut = int(0.7 * n)
        self.train = (self.x[:cut], self.y[:cut])
        self.val = (self.x[cut:], self.y[cut:])

    def unlabelled(self):
        return (tf.data.Dataset.from_tensor_slices((self.x, self.x)).shuffle(2000)
                .batch(BATCH).prefetch(tf.data.AUTOTUNE))

    def labelled(self, part):
        ds = tf.data.Dataset.from_tensor_slices(part).cache()
        if part is self.train:
            ds = ds.shuffle(len(part[0]))
        return ds.repeat().batch(BATCH).prefetch(tf.data.AUTOTUNE)


def build_encoder():
    return keras.Sequential([
        layers.Input((FRAMES, MELS)),
        layers.Conv1D(64, 5, strides=2, padding="same", activation="relu"),
        layers.Conv1D(96, 5, strides=2, padding="same", activation="relu"),
        layers.Conv1D(96, 3, padding="same", activation="relu"),
    ], name="encoder")


def pretrain(encoder, data):
    decoder = keras.Sequential([
        layers.Conv1DTranspose(64, 5, strides=2, padding="same", activation="relu"),
        layers.Conv1DTranspose(MELS, 5, strides=2, padding="same"),
    ])
    ae = keras.Sequential([encoder, decoder])
    ae.compile("adam", "mse")
    ae.fit(data.unlabelled(), epochs=2, verbose=2)


def finetune(encoder, data, folder):
    clf = keras.Sequential([encoder, layers.GlobalMaxPooling1D(), layers.Dropout(0.3), layers.Dense(1)])
    clf.compile(keras.optimizers.Adam(3e-4), keras.losses.BinaryCrossentropy(from_logits=True),
                metrics=[keras.metrics.BinaryAccuracy(threshold=0.0)])
    best = os.path.join(folder, "best.weights.h5")
    clf.fit(data.labelled(data.train), steps_per_epoch=len(data.train[0]) // BATCH,
            validation_data=data.labelled(data.val), validation_steps=len(data.val[0]),
            epochs=4, verbose=2,
            callbacks=[keras.callbacks.ModelCheckpoint(best, save_best_only=True, save_weights_only=True)])
    clf.load_weights(best)
    return clf


if __name__ == "__main__":
    keras.utils.set_random_seed(0)
    data = HiveData()
    enc = build_encoder()
    pretrain(enc, data)
    with tempfile.TemporaryDirectory() as folder:
        clf = finetune(enc, data, folder)
    print("accuracy", float(np.mean((clf.predict(data.val[0], batch_size=128, verbose=0)[:, 0] > 0) == data.val[1])))
