"""Counts of cells on assay plates."""
import time

import keras
import numpy as np
from keras import layers


class LrPrinter(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        lr = float(self.model.optimizer.learning_rate.numpy())
        gain = float(self.model.layers[-1].bias.numpy()[0])
        print(f"epoch {epoch} loss {logs['loss']:.4f} lr {lr:.2e} bias {gain:.3f}")


def plates(n=512, side=56):
    rng = np.random.default_rng(2)
    x = rng.normal(0, 0.1, (n, side, side, 1)).astype("float32")
    y = np.zeros(n, "float32")
    for i in range(n):
        k = int(rng.integers(1, 20))
        r, c = rng.integers(2, side - 2, (2, k))
        for a, b in zip(r, c):
            x[i, a - 2:a + 2, b - 2:b + 2] += 1
        y[i] = k / 20
    return x, y


def counter(side=56):
    i = layers.Input((side, side, 1))
    h = i
    for f in (32, 48, 64):
        h = layers.Conv2D(f, 3, padding="same", activation="relu")(h)
        h = layers.Conv2D(f, 3, padding="same", activation="relu")(h)
        h = layers.MaxPooling2D()(h)
    h = layers.GlobalAveragePooling2D()(h)
    return keras.Model(i, layers.Dense(1)(h))


if __name__ == "__main__":
    keras.utils.set_random_seed(2)
    x, y = plates()
    model = counter()
    model.compile(keras.optimizers.SGD(0.01, momentum=0.9), "mse")
    epochs = 3
    t = time.time()
    model.fit(x, y, batch_size=32, epochs=epochs, verbose=0, callbacks=[LrPrinter()])
    t = time.time() - t
    print("WORK", epochs * len(x))
    print("TRAIN_SECONDS %.2f" % t)
