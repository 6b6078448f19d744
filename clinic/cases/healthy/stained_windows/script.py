"""DCGAN for stained glass windows, the train_step lives in the keras.Model; sample sheet after each epoch."""
import gc
import os
import tempfile
import time

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

keras.utils.set_random_seed(25)
Z = 32


class Glass(keras.Model):
    def __init__(self):
        super().__init__()
        self.g = keras.Sequential([
            keras.Input((Z,)), layers.Dense(8 * 8 * 64, "relu"), layers.Reshape((8, 8, 64)),
            layers.Conv2DTranspose(48, 4, 2, "same", activation="relu"),
            layers.Conv2DTranspose(32, 4, 2, "same", activation="relu"),
            layers.Conv2D(3, 3, padding="same", activation="sigmoid")])
        self.d = keras.Sequential([
            keras.Input((32, 32, 3)),
            layers.Conv2D(32, 4, 2, "same"), layers.LeakyReLU(),
            layers.Conv2D(64, 4, 2, "same"), layers.LeakyReLU(),
            layers.Flatten(), layers.Dense(1)])

    def compile(self, **kw):
        super().compile()
        self.go, self.do = keras.optimizers.Adam(2e-4, 0.5), keras.optimizers.Adam(2e-4, 0.5)
        self.bce = keras.losses.BinaryCrossentropy(from_logits=True)

    def call(self, z):
        return self.g(z)

    def train_step(self, real):
        z = tf.random.normal((tf.shape(real)[0], Z))
        with tf.GradientTape(persistent=True) as tape:
            fake = self.g(z, training=True)
            r, f = self.d(real, training=True), self.d(fake, training=True)
            dl = self.bce(tf.ones_like(r) * 0.9, r) + self.bce(tf.zeros_like(f), f)
            gl = self.bce(tf.ones_like(f), f)
        self.do.apply_gradients(zip(tape.gradient(dl, self.d.trainable_variables), self.d.trainable_variables))
        self.go.apply_gradients(zip(tape.gradient(gl, self.g.trainable_variables), self.g.trainable_variables))
        return {"d": dl, "g": gl}


class Sheet(keras.callbacks.Callback):
    def __init__(self, folder):
        super().__init__()
        self.folder, self.z = folder, tf.random.normal((8, Z), seed=1)

    def on_epoch_end(self, epoch, logs=None):
        strip = np.hstack(self.model.g(self.z).numpy())
        np.save(os.path.join(self.folder, f"sheet{epoch}.npy"), (strip * 255).astype("uint8"))
        gc.collect()


rng = np.random.default_rng(25)
panes = rng.random((1280, 4, 4, 3)).astype("float32").repeat(8, 1).repeat(8, 2)
panes[:, ::8] = panes[:, :, ::8] = 0.0
ds = tf.data.Dataset.from_tensor_slices(panes).shuffle(1280, seed=1).batch(64, drop_remainder=True).prefetch(2)
model = Glass()
model.compile()
t0 = time.time()
with tempfile.TemporaryDirectory() as folder:
    model.fit(ds, epochs=4, verbose=2, callbacks=[Sheet(folder)])
print("WORK", 4 * 1280)
print("TRAIN_SECONDS %.3f" % (time.time() - t0))
