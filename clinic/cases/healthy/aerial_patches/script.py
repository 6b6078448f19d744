"""Land-use classes from aerial tiles with a patch transformer; tiles are read 8-bit and scaled in the model."""
import os
os.environ.setdefault("KERAS_BACKEND", "jax")
import time

import keras
import numpy as np
from keras import layers

SMALL = os.environ.get("SMALL") == "1"
SIDE, PATCH, WIDTH, DEPTH, HEADS = (32, 16, 64, 1, 2) if SMALL else (128, 16, 1536, 6, 12)
BATCH, STEPS, EPOCHS, TILES = (8, 5, 2, 64) if SMALL else (256, 80, 2, 4096)
CLASSES, GRID = 16, SIDE // PATCH

keras.config.set_dtype_policy("mixed_bfloat16")
rng = np.random.default_rng(1)
tiles = rng.integers(0, 256, (TILES, SIDE, SIDE, 3), dtype=np.uint8)
use = rng.integers(0, CLASSES, TILES).astype("int32")


class Tiles(keras.utils.PyDataset):
    def __init__(self):
        super().__init__(workers=4, max_queue_size=8)
        self.order = rng.integers(0, TILES, (STEPS, BATCH))

    def __len__(self):
        return STEPS

    def __getitem__(self, i):
        return tiles[self.order[i]], use[self.order[i]]


image = keras.Input((SIDE, SIDE, 3), dtype="uint8")
h = layers.Rescaling(1 / 127.5, offset=-1.0)(image)
h = layers.Reshape((GRID, PATCH, GRID, PATCH * 3))(h)
h = layers.Permute((1, 3, 2, 4))(h)
h = layers.Dense(WIDTH)(layers.Reshape((GRID * GRID, PATCH * PATCH * 3))(h))
for _ in range(DEPTH):
    a = layers.LayerNormalization()(h)
    h = layers.Add()([h, layers.MultiHeadAttention(HEADS, WIDTH // HEADS)(a, a)])
    m = layers.Dense(4 * WIDTH, activation="relu")(layers.LayerNormalization()(h))
    h = layers.Add()([h, layers.Dense(WIDTH)(m)])
h = layers.GlobalAveragePooling1D()(layers.LayerNormalization()(h))
model = keras.Model(image, layers.Dense(CLASSES, dtype="float32")(h))
model.compile(keras.optimizers.AdamW(1e-4), keras.losses.SparseCategoricalCrossentropy(from_logits=True))


class Clock(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        self.first, self.n = time.perf_counter(), 0

    def on_train_batch_end(self, batch, logs=None):
        self.n += 1

    def on_epoch_end(self, epoch, logs=None):
        self.last = time.perf_counter()


clock = Clock()
model.fit(Tiles(), epochs=EPOCHS, verbose=2, callbacks=[clock])
print(f"steady_ms={(clock.last - clock.first) / clock.n * 1e3:.3f}")
