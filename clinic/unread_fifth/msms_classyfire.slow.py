"""Compound superclass from an MS/MS spectrum (MassBank + GNPS, positive mode)."""
import os

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

BIN_WIDTH = 0.5
MZ_MAX = 1000.0
N_BINS = int(MZ_MAX / BIN_WIDTH)


def load_spectra(path):
    # peaks of all the spectra one after another; spectrum i owns peaks[offsets[i]:offsets[i + 1]]
    # about 90k spectra with some 200 peaks each
    with np.load(path) as f:
        return f["mz"], f["intensity"], f["offsets"], f["superclass"].astype("int32")


def bin_spectra(mz, intensity, offsets):
    n = len(offsets) - 1
    binned = np.zeros((n, N_BINS), dtype=np.float32)
    for i in range(n):
        for p in range(offsets[i], offsets[i + 1]):
            if mz[p] < MZ_MAX:
                binned[i, int(mz[p] / BIN_WIDTH)] += intensity[p]
    return binned


def scale(binned):
    top = binned.max(axis=1, keepdims=True)
    np.divide(binned, np.maximum(top, 1e-9), out=binned)
    np.sqrt(binned, out=binned)
    return binned


def get_model(n_classes, width=1024, depth=3, drop=0.4):
    inp = keras.Input((N_BINS,))
    x = layers.Dropout(0.1)(inp)
    for _ in range(depth):
        x = layers.Dense(width, use_bias=False)(x)
        x = layers.BatchNormalization()(x)
        x = layers.Activation("swish")(x)
        x = layers.Dropout(drop)(x)
    return keras.Model(inp, layers.Dense(n_classes, activation="softmax")(x))


def as_dataset(x, y, training, batch=512):
    ds = tf.data.Dataset.from_tensor_slices((x, y))
    if training:
        ds = ds.shuffle(8192)
    return ds.batch(batch).prefetch(tf.data.AUTOTUNE)


def main():
    mz, intensity, offsets, label = load_spectra(os.environ.get("SPECTRA", "spectra_pos.npz"))
    x = scale(bin_spectra(mz, intensity, offsets))
    n_classes = int(label.max()) + 1
    print("binned", x.shape, "classes", n_classes)

    order = np.random.default_rng(11).permutation(len(x))
    cut = int(0.9 * len(x))
    tr, va = order[:cut], order[cut:]

    model = get_model(n_classes)
    model.compile(
        optimizer=keras.optimizers.AdamW(1e-3, weight_decay=1e-4),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy", keras.metrics.SparseTopKCategoricalAccuracy(3, name="top3")],
    )
    with tf.device("/CPU:0"):
        train_ds = as_dataset(x[tr], label[tr], True)
        val_ds = as_dataset(x[va], label[va], False)
    history = model.fit(
        train_ds,
        validation_data=val_ds,
        epochs=40,
        callbacks=[keras.callbacks.EarlyStopping(patience=6, restore_best_weights=True)],
        verbose=2,
    )
    print("best val accuracy", max(history.history["val_accuracy"]))
    model.save("msms_superclass.keras")


if __name__ == "__main__":
    main()
