"""Lava flow from a thin-section texture.  Eight big scans, crops drawn at random by a generator."""
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers

FLOWS = 8
SCAN = 1200
CROP = 48
BATCH = 32
STEPS = 30
EPOCHS = 4


def grow_scan(rng, flow):
    """Band-passed noise: every flow cooled at its own pace, so has its own grain size."""
    white = rng.standard_normal((SCAN, SCAN))
    f = np.hypot(np.fft.fftfreq(SCAN)[:, None], np.fft.rfftfreq(SCAN)[None, :])
    band = np.exp(-((f - 0.03 - 0.02 * flow) / 0.015) ** 2)
    grain = np.fft.irfft2(np.fft.rfft2(white) * band, s=(SCAN, SCAN))
    grain = grain / grain.std()
    tint = rng.uniform(0.8, 1.2, 3)
    rgb = 110 + 35 * grain[..., None] * tint + rng.normal(0, 6, (SCAN, SCAN, 1))
    return rgb.clip(0, 255).astype(np.uint8)


class CropSource:
    def __init__(self, scans, seed):
        self.scans = scans
        self.rng = np.random.default_rng(seed)

    def __call__(self):
        while True:
            flow = self.rng.integers(0, FLOWS, BATCH)
            corner = self.rng.integers(0, SCAN - CROP, (BATCH, 2))
            crops = np.empty((BATCH, CROP, CROP, 3), np.float32)
            for k in range(BATCH):
                r, c = corner[k]
                crops[k] = self.scans[flow[k]][r:r + CROP, c:c + CROP]
            crops -= 110.0
            crops /= 40.0
            yield crops, flow.astype(np.int32)


class Smoothed(keras.callbacks.Callback):
    """Keeps a moving average of the loss, batch by batch."""

    def __init__(self, decay=0.9):
        super().__init__()
        self.decay = decay
        self.value = None
        self.history = []

    def on_train_batch_end(self, batch, logs=None):
        loss = float(logs["loss"])
        self.value = loss if self.value is None else self.decay * self.value + (1 - self.decay) * loss
        self.history.append(self.value)

    def on_epoch_end(self, epoch, logs=None):
        print(f"  smoothed {self.value:.4f} after {len(self.history)} batches")


def texture_net():
    inputs = keras.Input((CROP, CROP, 3))
    x = layers.Conv2D(24, 3, padding="same", activation="relu")(inputs)
    x = layers.Conv2D(32, 3, strides=2, padding="same", activation="relu")(x)
    x = layers.Conv2D(48, 3, padding="same", activation="relu")(x)
    x = layers.Conv2D(64, 3, strides=2, padding="same", activation="relu")(x)
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inputs, layers.Dense(FLOWS, activation="softmax")(x))


def main():
    keras.utils.set_random_seed(3)
    rng = np.random.default_rng(3)
    scans = [grow_scan(rng, flow) for flow in range(FLOWS)]
    crops = tf.data.Dataset.from_generator(
        CropSource(scans, seed=4),
        output_signature=(tf.TensorSpec((BATCH, CROP, CROP, 3), tf.float32),
                          tf.TensorSpec((BATCH,), tf.int32)),
    ).prefetch(2)

    model = texture_net()
    model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    t = time.perf_counter()
    model.fit(crops, epochs=EPOCHS, steps_per_epoch=STEPS, callbacks=[Smoothed()], verbose=2)
    print("TRAIN_SECONDS %.2f" % (time.perf_counter() - t))


if __name__ == "__main__":
    main()
