"""Seed-variety classifier on 32x32 crops: residual CNN in bfloat16, batches made by workers."""
import os

os.environ.setdefault("KERAS_BACKEND", "jax")
import time

import jax
import keras
import numpy as np
from keras import layers

keras.mixed_precision.set_global_policy("mixed_bfloat16")

SMALL = os.environ.get("SMALL") == "1"
BATCH = 32 if SMALL else 1024
CROPS = 32 * 5 if SMALL else 1024 * 60
EPOCHS = 2 if SMALL else 6
WIDTH = 16 if SMALL else 128
VARIETIES = 20


def photograph(seed=16):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, VARIETIES, CROPS).astype("int32")
    tint = rng.integers(0, 128, (VARIETIES, 1, 1, 3), dtype=np.uint8)
    return rng.integers(0, 128, (CROPS, 32, 32, 3), dtype=np.uint8) + tint[labels], labels


class Crops(keras.utils.PyDataset):
    def __init__(self, images, labels, **kwargs):
        super().__init__(**kwargs)
        self.images, self.labels = images, labels
        self.order = np.random.default_rng(17).permutation(len(images))

    def __len__(self):
        return len(self.images) // BATCH

    def on_epoch_end(self):
        self.order = np.roll(self.order, 7919)

    def __getitem__(self, index):
        chosen = self.order[index * BATCH:(index + 1) * BATCH]
        return self.images[chosen], self.labels[chosen]


def unit(x, width, strides=1):
    y = layers.Conv2D(width, 3, strides=strides, padding="same", use_bias=False)(x)
    y = layers.ReLU()(layers.BatchNormalization()(y))
    y = layers.BatchNormalization()(layers.Conv2D(width, 3, padding="same", use_bias=False)(y))
    if strides > 1:
        x = layers.Conv2D(width, 1, strides=strides, use_bias=False)(x)
    return layers.ReLU()(layers.Add()([x, y]))


def build():
    inputs = keras.Input((32, 32, 3), dtype="uint8")
    x = layers.Rescaling(1 / 127.5, offset=-1)(inputs)
    x = layers.ReLU()(layers.Conv2D(WIDTH, 3, padding="same")(x))
    x = unit(x, WIDTH)
    x = unit(x, WIDTH)
    x = unit(x, 2 * WIDTH, strides=2)
    x = unit(x, 2 * WIDTH)
    x = unit(x, 4 * WIDTH, strides=2)
    x = layers.GlobalAveragePooling2D()(x)
    model = keras.Model(inputs, layers.Dense(VARIETIES, dtype="float32")(x))
    model.compile(
        keras.optimizers.SGD(0.05, momentum=0.9),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    return model


def main():
    crops = Crops(*photograph(), workers=4, max_queue_size=12)
    model = build()
    model.fit(crops, epochs=1, verbose=2)
    began = time.perf_counter()
    history = model.fit(crops, epochs=EPOCHS, verbose=2)
    jax.block_until_ready([v.value for v in model.trainable_variables])
    took = time.perf_counter() - began
    print(f"steady_ms={1e3 * took / (EPOCHS * len(crops)):.3f} loss={history.history['loss'][-1]:.4f}")


if __name__ == "__main__":
    main()
