"""Tiny U-Net on synthetic lesion masks, with a monitor of the layers' conditioning for the paper's appendix."""
import csv
import os
import tempfile
import time

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers as L


def phantom(n, size, seed):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[:size, :size]
    img = np.empty((n, size, size, 1), np.float32)
    msk = np.empty_like(img)
    for k in range(n):
        cy, cx = rng.uniform(6, size - 6, 2)
        r = rng.uniform(3, 7)
        m = (yy - cy) ** 2 + (xx - cx) ** 2 < r * r
        img[k, ..., 0] = m * 0.6 + rng.normal(0, 0.35, (size, size))
        msk[k, ..., 0] = m
    return img, msk


def conv(x, f):
    x = L.Conv2D(f, 3, padding="same", use_bias=False)(x)
    x = L.BatchNormalization()(x)
    return L.ReLU()(x)


def unet(size):
    i = L.Input((size, size, 1))
    a = conv(i, 8)
    b = conv(L.MaxPool2D()(a), 32)
    c = conv(conv(L.MaxPool2D()(b), 96), 96)
    d = conv(L.Concatenate()([L.UpSampling2D()(c), b]), 32)
    e = conv(L.Concatenate()([L.UpSampling2D()(d), a]), 8)
    return keras.Model(i, L.Conv2D(1, 1, activation="sigmoid")(e))


def dice_loss(y, p):
    inter = tf.reduce_sum(y * p, (1, 2, 3))
    return 1.0 - tf.reduce_mean((2 * inter + 1.0) / (tf.reduce_sum(y + p, (1, 2, 3)) + 1.0))


class ConditionNumbers(keras.callbacks.Callback):
    def __init__(self, path):
        super().__init__()
        self.path = path

    def on_train_begin(self, logs=None):
        self.fh = open(self.path, "w", newline="")
        self.rows = csv.writer(self.fh)
        self.kernels = [l.kernel for l in self.model.layers if isinstance(l, L.Conv2D)]

    def on_train_batch_end(self, batch, logs=None):
        spectra = []
        for k in self.kernels:
            m = np.asarray(k).reshape(-1, k.shape[-1])
            s = np.linalg.svd(m, compute_uv=False)
            spectra.append(s[0] / max(s[-1], 1e-12))
        self.rows.writerow([batch, *spectra])

    def on_train_end(self, logs=None):
        self.fh.close()


def main():
    keras.utils.set_random_seed(0)
    x, y = phantom(320, 24, 0)
    model = unet(24)
    model.compile("adam", dice_loss)
    with tempfile.TemporaryDirectory() as out:
        t0 = time.perf_counter()
        model.fit(x, y, batch_size=8, epochs=2, verbose=2,
                  callbacks=[ConditionNumbers(os.path.join(out, "cond.csv"))])
        print(f"fit took {time.perf_counter() - t0:.1f}s")


if __name__ == "__main__":
    main()
