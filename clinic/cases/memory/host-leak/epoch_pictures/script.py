"""Autoencoder on small pictures; a callback keeps each epoch's reconstructions for an animation."""
import time
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(1)
x = rng.random((4096, 32, 32, 3), dtype=np.float32)
held_out = rng.random((768, 32, 32, 3), dtype=np.float32)


class Animation(tf.keras.callbacks.Callback):
    def __init__(self, pictures):
        super().__init__()
        self.pictures = pictures
        self.shown = []

    def on_epoch_end(self, epoch, logs=None):
        self.shown.append(self.model.predict_on_batch(self.pictures))


model = tf.keras.Sequential([
    tf.keras.layers.Input((32, 32, 3)),
    tf.keras.layers.Conv2D(16, 4, strides=4, activation="relu"),
    tf.keras.layers.Conv2DTranspose(3, 4, strides=4),
])
model.compile("adam", "mse")
model.fit(x, x, batch_size=256, epochs=1, verbose=2)
start = time.perf_counter()
model.fit(x, x, batch_size=256, epochs=30, verbose=2, callbacks=[Animation(held_out)])
print("WORK", 30 * len(x))
print("TRAIN_SECONDS %.3f" % (time.perf_counter() - start))
