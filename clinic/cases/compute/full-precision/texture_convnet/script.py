"""Surface textures by a wide convnet in float32."""
import os
import time

import numpy as np
import tensorflow as tf
from tensorflow.keras import layers

SMALL = os.environ.get("SLOWTRAIN_SMALL") == "1"
SIDE, WIDTH, BATCH, EPOCHS = (16, 16, 16, 2) if SMALL else (48, 256, 128, 12)

rng = np.random.default_rng(11)
pictures = rng.integers(0, 256, (8 * BATCH, SIDE, SIDE, 3), dtype=np.uint8)
texture = rng.integers(0, 24, 8 * BATCH)
data = tf.data.Dataset.from_tensor_slices((pictures, texture)).cache().shuffle(8 * BATCH)
data = data.batch(BATCH, drop_remainder=True).prefetch(tf.data.AUTOTUNE)

inputs = tf.keras.Input((SIDE, SIDE, 3), dtype="uint8")
x = layers.Rescaling(1 / 127.5, offset=-1)(inputs)
x = layers.Conv2D(WIDTH, 3, padding="same", activation="relu")(x)
for _ in range(4):
    x = layers.Conv2D(WIDTH, 3, padding="same", activation="relu")(x)
x = layers.GlobalAveragePooling2D()(x)
outputs = layers.Dense(24, dtype="float32")(x)
model = tf.keras.Model(inputs, outputs)
model.compile("sgd", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=False)
model.fit(data, epochs=1, verbose=2)
t0 = time.perf_counter()
model.fit(data, epochs=EPOCHS, verbose=2)
print("WORK", EPOCHS * len(pictures))
print("TRAIN_SECONDS %.3f" % (time.perf_counter() - t0))
