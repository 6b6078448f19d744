"""Grading of retina photographs (five stages), with the effective batch of the paper, 64."""
import time
import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(17)
rng = np.random.default_rng(17)

PAPER_BATCH, DEVICE_BATCH = 64, 4


def photographs(n, side=24):
    stage = rng.integers(0, 5, n)
    img = rng.normal(0.5, 0.15, (n, side, side, 3))
    for s in range(1, 5):
        spots = rng.integers(2, side - 2, (n, s * 2, 2))
        for i in np.flatnonzero(stage == s):
            img[i, spots[i, :, 0], spots[i, :, 1], 0] += 1.0
    return img.astype("float32"), stage


def grader():
    inp = keras.Input((24, 24, 3))
    h = layers.Conv2D(16, 3, strides=2, padding="same", activation="relu")(inp)
    h = layers.Conv2D(32, 3, strides=2, padding="same", activation="relu")(h)
    h = layers.GlobalAveragePooling2D()(h)
    h = layers.Dropout(0.2)(h)
    return keras.Model(inp, layers.Dense(5, activation="softmax")(h))


images, stages = photographs(3200)
model = grader()
model.compile(
    optimizer=keras.optimizers.Adam(1e-3, gradient_accumulation_steps=PAPER_BATCH // DEVICE_BATCH),
    loss="sparse_categorical_crossentropy",
    metrics=["accuracy"],
)
t0 = time.time()
model.fit(images, stages, batch_size=DEVICE_BATCH, epochs=3, verbose=2)
print(f"three epochs: {time.time() - t0:.1f} s")
