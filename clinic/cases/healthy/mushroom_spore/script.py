import time

import numpy as np
import keras
from keras import layers


class Pace(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.count = 0
        self.began = time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        self.count += 1

    def on_epoch_end(self, epoch, logs=None):
        print(epoch, self.count, round(self.count / (time.perf_counter() - self.began), 1), "batches/s")


def spores(count):
    rng = np.random.default_rng(29)
    prints = rng.random((count, 64, 64, 1), dtype=np.float32)
    return prints, prints.mean(axis=(1, 2, 3)) > 0.5


def classifier():
    net = keras.Sequential([
        keras.Input((64, 64, 1)),
        layers.Conv2D(32, 5, strides=2, activation="relu"),
        layers.Conv2D(48, 3, activation="relu"),
        layers.MaxPooling2D(3),
        layers.Flatten(),
        layers.Dense(1, activation="sigmoid"),
    ])
    net.compile(optimizer="adam", loss="binary_crossentropy")
    return net


def main():
    keras.utils.set_random_seed(29)
    prints, edible = spores(1280)
    classifier().fit(prints, edible.astype("float32"), batch_size=64, epochs=5, verbose=0, callbacks=[Pace()])


if __name__ == "__main__":
    main()
