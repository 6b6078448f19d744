"""Strike note classification of cast bells. SGD, the rate is cut by 0.8 after every pass."""
import time

import numpy as np
from keras import Input, Model, layers, losses, optimizers, utils

utils.set_random_seed(64)


def bells(n=2400, bins=256):
    rng = np.random.default_rng(64)
    note = rng.integers(0, 8, n)
    f = np.arange(bins)
    x = 0.1 * rng.random((n, bins))
    for partial, amount in [(1, 1.0), (2, 0.7), (2.4, 0.5), (3, 0.4)]:
        x += amount * np.exp(-((f[None] - partial * (20 + 6 * note[:, None])) ** 2) / 20)
    return x.astype("float32"), note


def build(bins):
    i = Input((bins, 1))
    h = layers.Conv1D(16, 9, activation="relu", strides=4)(i)
    for k in range(3):
        r = layers.Conv1D(16, 3, padding="same", activation="relu")(h)
        r = layers.Conv1D(16, 3, padding="same")(r)
        h = layers.LayerNormalization()(layers.Add()([h, r]))
    h = layers.Flatten()(h)
    return Model(i, layers.Dense(8)(h))


def main():
    x, note = bells()
    model = build(x.shape[1])
    loss = losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizers.SGD(0.05), loss, metrics=["accuracy"])
    rate, passes, seen = 0.05, 12, 0
    t0 = time.time()
    for p in range(passes):
        model.compile(optimizers.SGD(rate), loss, metrics=["accuracy"])
        h = model.fit(x[..., None], note, batch_size=96, epochs=1, verbose=0, shuffle=False)
        print(f"pass {p}  rate {rate:.4f}  accuracy {h.history['accuracy'][0]:.3f}")
        rate *= 0.8
        seen += len(x)
    print("WORK", seen)
    print("TRAIN_SECONDS %.3f" % (time.time() - t0))


if __name__ == "__main__":
    main()
