"""Date medieval manuscript lines (regression on the year) from grey-scale line images."""
import os
import random
import time
import numpy as np
import tensorflow as tf
import keras
from keras import layers

SIZE, BATCH, STEPS = 64, 32, 75


def configure(seed):
    """Same numbers on every colleague's laptop."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    random.seed(seed)
    np.random.seed(seed)
    tf.random.set_seed(seed)
    os.environ["PYTHONHASHSEED"] = str(seed)


def lines_and_years(n):
    years = np.random.uniform(800, 1500, n).astype("float32")
    slant = (years - 800) / 700
    grid = np.linspace(0, 1, SIZE, dtype="float32")
    phase = grid[None, None, :] * 18 + slant[:, None, None] * 14 * grid[None, :, None]
    ink = np.sin(phase) + 0.3 * np.random.randn(n, SIZE, SIZE)
    return ink[..., None].astype("float32"), (slant - 0.5)[:, None].astype("float32")


class LineReader(keras.Model):
    def __init__(self, widths=(16, 32, 64, 64)):
        super().__init__()
        self.blocks = []
        for i, w in enumerate(widths):
            self.blocks.append(layers.Conv2D(w, 3, padding="same", activation="relu"))
            if i < len(widths) - 1:
                self.blocks.append(layers.MaxPooling2D())
        self.pool = layers.GlobalAveragePooling2D()
        self.year = layers.Dense(1)

    def call(self, x):
        for block in self.blocks:
            x = block(x)
        return self.year(self.pool(x))


def main():
    configure(1066)
    x, y = lines_and_years(960)
    ds = (tf.data.Dataset.from_tensor_slices((x, y)).cache().shuffle(960).repeat()
          .batch(BATCH).prefetch(tf.data.AUTOTUNE))
    model = LineReader(widths=(16, 64, 64, 64))
    model.compile(optimizer=keras.optimizers.Adam(2e-3), loss="mse", metrics=["mae"])
    started = time.perf_counter()
    hist = model.fit(ds, steps_per_epoch=STEPS // 3, epochs=3, verbose=2)
    seconds = time.perf_counter() - started
    print("mean error in years: %.1f" % (700 * hist.history["mae"][-1]))
    print("WORK", STEPS)
    print("TRAIN_SECONDS %.3f" % seconds)


if __name__ == "__main__":
    main()
