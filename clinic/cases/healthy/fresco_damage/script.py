"""Damage map classes of fresco patches; patch catalogue lookup through NumPy."""
import time
import numpy as np
import tensorflow as tf
import keras
from keras import layers

SIDE, CHANNELS, KINDS = 16, 24, 5
BATCH = 64
rng = np.random.default_rng(3)
PATCHES = rng.normal(size=(1280, SIDE, SIDE, CHANNELS)).astype("float32")
KIND = np.argmax(PATCHES[:, :, :, :KINDS].mean((1, 2)), -1).astype("int32")


def fetch(index):
    return PATCHES[index], KIND[index]


def fetch_tf(index):
    patch, kind = tf.numpy_function(fetch, [index], [tf.float32, tf.int32], stateful=False)
    patch.set_shape((BATCH, SIDE, SIDE, CHANNELS))
    kind.set_shape((BATCH,))
    return patch, kind


def patches():
    return (tf.data.Dataset.range(len(PATCHES)).shuffle(len(PATCHES), seed=9)
            .batch(BATCH, drop_remainder=True).map(fetch_tf).prefetch(tf.data.AUTOTUNE))


class EpochReport(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        norm = float(np.linalg.norm(self.model.layers[-1].kernel.numpy()))
        print(f"epoch {epoch}: loss {logs['loss']:.4f}, head norm {norm:.3f}")


def network():
    x = inp = keras.Input((SIDE, SIDE, CHANNELS))
    for filters in (64, 96, 96):
        x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inp, layers.Dense(KINDS)(x))


model = network()
model.compile(optimizer=keras.optimizers.Adam(1e-3),
              loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
EPOCHS = 2
t0 = time.perf_counter()
model.fit(patches(), epochs=EPOCHS, verbose=0, callbacks=[EpochReport()])
seconds = time.perf_counter() - t0
print("WORK", EPOCHS * (len(PATCHES) // BATCH))
print("TRAIN_SECONDS %.3f" % seconds)
