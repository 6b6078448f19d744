"""Moss cover in field plots, read with image_dataset_from_directory."""
import os
import tempfile

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(113)
rng = np.random.default_rng(113)
root = tempfile.mkdtemp(prefix="moss_")
COVER = ["bare", "dense", "patchy"]

for k, name in enumerate(COVER):
    os.makedirs(os.path.join(root, name))
    for i in range(140):
        base = rng.normal(110, 25, (64, 64, 3))
        spots = rng.random((64, 64)) < (0.02, 0.8, 0.35)[k]
        base[spots, 1] += 70
        png = tf.io.encode_png(np.clip(base, 0, 255).astype("uint8"))
        tf.io.write_file(os.path.join(root, name, f"plot{i:03d}.png"), png)

raw_train, raw_valid = tf.keras.utils.image_dataset_from_directory(
    root, validation_split=0.1, subset="both", seed=5, image_size=(64, 64), batch_size=32,
)
train = raw_train.cache().prefetch(tf.data.AUTOTUNE)
valid = raw_valid.cache().prefetch(tf.data.AUTOTUNE)

model = tf.keras.Sequential([
    tf.keras.layers.Input((64, 64, 3)),
    tf.keras.layers.Rescaling(1 / 255.0),
    tf.keras.layers.Conv2D(24, 3, padding="same", activation="relu"),
    tf.keras.layers.Conv2D(24, 3, strides=2, padding="same", activation="relu"),
    tf.keras.layers.Conv2D(48, 3, padding="same", activation="relu"),
    tf.keras.layers.GlobalAveragePooling2D(),
    tf.keras.layers.Dropout(0.2),
    tf.keras.layers.Dense(len(COVER)),
])
model.compile(
    optimizer="adam",
    loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
model.fit(train, validation_data=valid, epochs=8, verbose=2)
