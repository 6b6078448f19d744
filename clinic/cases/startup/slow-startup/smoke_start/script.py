"""A trial of a deep separable convnet: sixty steps, of which the first compiles."""
import os
import time

import numpy as np
import tensorflow as tf
from tensorflow.keras import layers

SMALL = os.environ.get("SLOWTRAIN_SMALL") == "1"
BLOCKS, STEPS, BATCH = (2, 12, 8) if SMALL else (10, 60, 32)
# Keras compiles with XLA by itself where there is a GPU; on a processor it has to be asked.
DEFAULTS = {} if tf.config.list_physical_devices("GPU") else {"jit_compile": True}

rng = np.random.default_rng(17)
plumes = rng.random((STEPS * BATCH, 64, 64, 3), dtype="float32")
smoke = rng.integers(0, 2, STEPS * BATCH)

inputs = x = tf.keras.Input((64, 64, 3))
x = layers.Conv2D(32, 3, strides=2, padding="same")(x)
for block in range(BLOCKS):
    y = layers.BatchNormalization()(layers.SeparableConv2D(32 + 8 * block, 3, padding="same")(x))
    x = layers.Activation("relu")(layers.add([y, layers.Conv2D(32 + 8 * block, 1)(x)]))
outputs = layers.Dense(2)(layers.GlobalAveragePooling2D()(x))
model = tf.keras.Model(inputs, outputs)
t0 = time.perf_counter()
model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), **DEFAULTS)
model.fit(plumes, smoke, batch_size=BATCH, epochs=1, verbose=2)
print("WORK", len(plumes))
print("TRAIN_SECONDS %.3f" % (time.perf_counter() - t0))
