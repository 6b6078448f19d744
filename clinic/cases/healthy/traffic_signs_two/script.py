"""Traffic signs, plain fit on arrays."""
import time
import numpy as np
import keras
from keras import layers


def signs(n, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 12, n)
    x = rng.integers(0, 90, (n, 48, 48, 3), dtype=np.uint8)
    for i, k in enumerate(y):
        r, c = divmod(k, 4)
        x[i, 8 + 10 * r:18 + 10 * r, 4 + 10 * c:14 + 10 * c, k % 3] += 120
    return x, y.astype("int32")


def net():
    model = keras.Sequential([keras.Input((48, 48, 3)), layers.Rescaling(1 / 255)])
    for f in (32, 64, 128):
        model.add(layers.Conv2D(f, 3, padding="same", activation="relu"))
        model.add(layers.Conv2D(f, 3, padding="same", activation="relu"))
        model.add(layers.MaxPooling2D())
    model.add(layers.GlobalAveragePooling2D())
    model.add(layers.Dense(12, activation="softmax"))
    return model


def main():
    keras.utils.set_random_seed(1)
    x, y = signs(512, 0)
    xv, yv = signs(96, 1)
    model = net()
    model.compile(keras.optimizers.Adam(1e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])
    epochs = 3
    t0 = time.time()
    model.fit(x, y, batch_size=64, epochs=epochs, verbose=2)
    took = time.time() - t0
    print(model.evaluate(xv, yv, verbose=0))
    print("WORK", epochs * len(x))
    print("TRAIN_SECONDS %.2f" % took)


if __name__ == "__main__":
    main()
