"""Galaxy morphology from survey cut-outs (8-bit RGB), Keras fit on arrays in memory."""
import os
os.environ.setdefault("KERAS_BACKEND", "jax")
import time

import keras
import numpy as np
from keras import layers

SMALL = os.environ.get("SMALL") == "1"
COUNT, SIDE, BATCH, EPOCHS = (64, 32, 16, 2) if SMALL else (10_240, 128, 256, 4)
CLASSES = 10

keras.utils.set_random_seed(2)
keras.config.set_dtype_policy("mixed_bfloat16")
rng = np.random.default_rng(2)
cutouts = rng.integers(0, 256, (COUNT, SIDE, SIDE, 3), dtype=np.uint8)
shape = rng.integers(0, CLASSES, COUNT).astype("int32")

images = cutouts.astype("float32") / 255.0

inputs = keras.Input((SIDE, SIDE, 3))
h = inputs
h = layers.Conv2D(32, 4, strides=4, activation="relu")(h)
for filters in (64, 128):
    h = layers.Conv2D(filters, 3, strides=2, padding="same", activation="relu")(h)
h = layers.GlobalAveragePooling2D()(h)
outputs = layers.Dense(CLASSES, dtype="float32")(h)
model = keras.Model(inputs, outputs)
model.compile(keras.optimizers.Adam(1e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True))


class Rate(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        self.a, self.k = time.perf_counter(), 0

    def on_train_batch_end(self, batch, logs=None):
        self.k += 1

    def on_epoch_end(self, epoch, logs=None):
        self.b = time.perf_counter()


rate = Rate()
model.fit(images, shape, batch_size=BATCH, epochs=EPOCHS, verbose=2, callbacks=[rate])
print(f"steady_ms={(rate.b - rate.a) / rate.k * 1e3:.3f}")
