"""Dose-response regression from molecular fingerprints: deep MLP, checkpoint at the end of each epoch."""
import os
import tempfile

import keras
import numpy as np


class Plateau(keras.callbacks.Callback):
    """Halves the learning rate when the training loss stops falling; counts batches as it goes."""

    def __init__(self):
        super().__init__()
        self.best, self.batches = np.inf, 0

    def on_train_batch_end(self, batch, logs=None):
        self.batches += 1

    def on_epoch_end(self, epoch, logs=None):
        if logs["loss"] > 0.99 * self.best:
            self.model.optimizer.learning_rate = float(self.model.optimizer.learning_rate) * 0.5
        self.best = min(self.best, logs["loss"])
        print("epoch", epoch, "val", round(logs["val_loss"], 4), "batches", self.batches)


def fingerprints(n, bits=1024, seed=8):
    rng = np.random.default_rng(seed)
    x = (rng.random((n, bits), dtype="float32") < 0.1).astype("float32")
    w = rng.normal(size=(bits, 2)).astype("float32") * 0.3
    h = np.tanh(x @ w)
    return x, (h[:, 0] * h[:, 1] + 0.05 * rng.normal(size=n)).astype("float32")


def main():
    x, y = fingerprints(20480 + 512)
    net = keras.Sequential([
        keras.Input((1024,)),
        keras.layers.Dense(768, activation="gelu"),
        keras.layers.Dense(768, activation="gelu"),
        keras.layers.Dense(384, activation="gelu"),
        keras.layers.Dense(1),
    ])
    net.compile(keras.optimizers.SGD(0.02, momentum=0.9), "mse")
    keep = os.path.join(tempfile.mkdtemp(), "best.weights.h5")
    net.fit(x[512:], y[512:], batch_size=512, epochs=4, verbose=0,
            validation_data=(x[:512], y[:512]), validation_batch_size=512,
            callbacks=[Plateau(), keras.callbacks.ModelCheckpoint(keep, save_weights_only=True)])


if __name__ == "__main__":
    main()
