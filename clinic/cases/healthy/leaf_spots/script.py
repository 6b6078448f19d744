"""Leaf disease classifier: residual network on small crops that sit in memory."""
import gc
import time

import keras
import numpy as np
from keras import layers


def crops(n, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 8, n)
    pattern = rng.normal(size=(8, 32, 32, 3)).astype("float32")
    return (pattern[y] + rng.normal(0, 2, (n, 32, 32, 3))).astype("float32"), y.astype("int32")


def block(x, f, stride):
    short = x
    x = layers.Conv2D(f, 3, strides=stride, padding="same", use_bias=False)(x)
    x = layers.ReLU()(layers.BatchNormalization()(x))
    x = layers.Conv2D(f, 3, padding="same", use_bias=False)(x)
    x = layers.BatchNormalization()(x)
    if stride > 1:
        short = layers.Conv2D(f, 1, strides=stride)(short)
    return layers.ReLU()(layers.Add()([x, short]))


class Housekeeping(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        gc.collect()
        print(f"   epoch {epoch}: lr {float(self.model.optimizer.learning_rate):.2e}")


def main():
    x, y = crops(1280)
    i = keras.Input((32, 32, 3))
    h = layers.Conv2D(32, 3, padding="same")(i)
    for f, s in ((32, 1), (64, 2), (128, 2)):
        h = block(h, f, s)
    out = layers.Dense(8)(layers.GlobalAveragePooling2D()(h))
    model = keras.Model(i, out)
    model.compile(keras.optimizers.SGD(0.05, momentum=0.9, nesterov=True),
                  keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    t0 = time.perf_counter()
    model.fit(x[:1152], y[:1152], batch_size=32, epochs=2, verbose=2, callbacks=[Housekeeping()],
              validation_data=(x[1152:], y[1152:]), validation_batch_size=128, validation_freq=2)
    print(f"{time.perf_counter() - t0:.1f}s")


if __name__ == "__main__":
    main()
