"""Spectral behaviour of MLPs on keyword embeddings (reading group, week 7)."""
import collections

import numpy as np
import tensorflow as tf
from tensorflow import keras


def blobs(n, d, k, seed=0):
    rng = np.random.default_rng(seed)
    centers = rng.normal(0, 2, (k, d))
    y = rng.integers(0, k, n)
    x = centers[y] + rng.normal(0, 1.5, (n, d))
    return x.astype("float32"), y.astype("int64")


class SpectrumLogger(keras.callbacks.Callback):
    """Keeps the leading singular values of every dense kernel."""

    def __init__(self, top=5):
        super().__init__()
        self.top = top
        self.records = collections.defaultdict(list)

    def _measure(self):
        for layer in self.model.layers:
            if isinstance(layer, keras.layers.Dense):
                w = layer.kernel.numpy()
                s = np.linalg.svd(w, compute_uv=False)
                self.records[layer.name].append(s[: self.top])

    def on_epoch_end(self, epoch, logs=None):
        self._measure()

    def on_train_end(self, logs=None):
        for name, rows in self.records.items():
            print(name, "sigma_max first/last", rows[0][0], rows[-1][0])


def build(d, k, width, depth):
    model = keras.Sequential([keras.Input((d,))])
    for n in range(depth):
        model.add(keras.layers.Dense(width, activation="relu", name=f"hidden{n}"))
    model.add(keras.layers.Dense(k, name="readout"))
    return model


def main():
    d, k = 300, 20
    x, y = blobs(64_000, d, k)
    ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(64_000)
    ds = ds.batch(512).prefetch(tf.data.AUTOTUNE)

    model = build(d, k, width=512, depth=3)
    model.compile(
        optimizer=keras.optimizers.SGD(0.05, momentum=0.9),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    model.fit(ds, epochs=15, callbacks=[SpectrumLogger()], verbose=2)


if __name__ == "__main__":
    main()
