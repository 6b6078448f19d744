"""Energy use of a cement kiln from process tags (tabular regression)."""
import argparse
import time

import numpy as np
import keras
from keras import layers


def kiln_log(rows, tags, seed=61):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, tags)).astype("float32")
    load = 1 / (1 + np.exp(-x[:, 0]))
    y = 3 * load + np.sin(x[:, 1]) * x[:, 2] + 0.3 * x[:, 3] ** 2 + 0.1 * rng.normal(size=rows)
    return x, ((y - y.mean()) / y.std()).astype("float32")


def regressor(tags, width, depth, mean, variance):
    inp = layers.Input((tags,))
    h = layers.Normalization(mean=mean, variance=variance)(inp)
    for _ in range(depth):
        h = layers.Dense(width, activation="relu")(h)
    h = layers.Dense(width // 2, activation="relu")(h)
    return keras.Model(inp, layers.Dense(1)(h), name="kiln")


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--rows", type=int, default=163840)
    ap.add_argument("--tags", type=int, default=48)
    ap.add_argument("--width", type=int, default=384)
    ap.add_argument("--depth", type=int, default=2)
    ap.add_argument("--batch", type=int, default=2048)
    ap.add_argument("--epochs", type=int, default=2)
    ap.add_argument("--lr", type=float, default=1e-3)
    a = ap.parse_args()

    keras.utils.set_random_seed(10)
    x, y = kiln_log(a.rows, a.tags)
    cut = int(0.97 * a.rows) // a.batch * a.batch
    model = regressor(a.tags, a.width, a.depth, x[:cut].mean(0), x[:cut].var(0))
    model.compile(keras.optimizers.Adam(a.lr), loss="mse", metrics=["mae"])
    callbacks = [keras.callbacks.ReduceLROnPlateau(monitor="val_loss", factor=0.5, patience=1)]
    t0 = time.time()
    history = model.fit(
        x[:cut], y[:cut],
        validation_data=(x[cut:], y[cut:]),
        batch_size=a.batch,
        epochs=a.epochs,
        callbacks=callbacks,
        verbose=2,
    )
    print("best val mae %.4f" % min(history.history["val_mae"]))
    print("TRAIN_SECONDS %.2f" % (time.time() - t0))


if __name__ == "__main__":
    main()
