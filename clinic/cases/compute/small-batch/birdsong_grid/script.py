"""Bird species from mel patches, a compact CNN trained with Keras' fit."""
import os
os.environ.setdefault("KERAS_BACKEND", "jax")
import time

import keras
import numpy as np
from keras import layers

SMALL = os.environ.get("SMALL") == "1"
PATCHES, SPECIES, EPOCHS = (128, 10, 2) if SMALL else (24_576, 180, 3)
BATCH_SIZE = 16

keras.utils.set_random_seed(21)
rng = np.random.default_rng(21)
mels = rng.normal(size=(PATCHES, 48, 48, 1)).astype("float32")
labels = rng.integers(0, SPECIES, PATCHES).astype("int32")


def block(h, filters):
    h = layers.Conv2D(filters, 3, padding="same", use_bias=False)(h)
    h = layers.BatchNormalization()(h)
    h = layers.ReLU()(h)
    return layers.MaxPooling2D()(h)


inputs = keras.Input((48, 48, 1))
h = inputs
for filters in (32, 64, 128):
    h = block(h, filters)
h = layers.GlobalAveragePooling2D()(h)
outputs = layers.Dense(SPECIES)(h)
model = keras.Model(inputs, outputs)
model.compile(keras.optimizers.Adam(5e-4), keras.losses.SparseCategoricalCrossentropy(from_logits=True))


class Timer(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        self.start, self.steps = time.perf_counter(), 0

    def on_train_batch_end(self, batch, logs=None):
        self.steps += 1

    def on_epoch_end(self, epoch, logs=None):
        self.spent = time.perf_counter() - self.start


timer = Timer()
model.fit(mels, labels, batch_size=BATCH_SIZE, epochs=EPOCHS, verbose=2, callbacks=[timer])
print(f"ms_per_1000_samples={timer.spent / PATCHES * 1e6:.3f}")
print(f"steady_ms={timer.spent / timer.steps * 1e3:.3f}")
