"""River levels by a temporal convnet; the last batch of each epoch is a smaller one."""
import os
import time

import numpy as np
import tensorflow as tf
from tensorflow.keras import layers

SMALL = os.environ.get("SLOWTRAIN_SMALL") == "1"
DAYS, BATCH, EPOCHS = (1000, 96, 2) if SMALL else (20_000, 192, 4)
# Keras compiles with XLA by itself where there is a GPU; on a processor it has to be asked.
DEFAULTS = {} if tf.config.list_physical_devices("GPU") else {"jit_compile": True}

rng = np.random.default_rng(18)
rain = rng.random((DAYS, 64, 8), dtype="float32")
level = rng.random((DAYS, 1), dtype="float32")
data = tf.data.Dataset.from_tensor_slices((rain, level)).cache().shuffle(DAYS)
data = data.batch(BATCH).prefetch(4)

inputs = x = tf.keras.Input((64, 8))
for dilation in (1, 2, 4, 8):
    y = layers.Conv1D(48, 3, padding="causal", dilation_rate=dilation, activation="relu")(x)
    x = layers.LayerNormalization()(layers.add([layers.Conv1D(48, 1)(x), y]))
model = tf.keras.Model(inputs, layers.Dense(1)(layers.GlobalAveragePooling1D()(x)))
t0 = time.perf_counter()
model.compile("adam", "mse", **DEFAULTS)
model.fit(data, epochs=EPOCHS, verbose=2)
print("WORK", EPOCHS * DAYS)
print("TRAIN_SECONDS %.3f" % (time.perf_counter() - t0))
