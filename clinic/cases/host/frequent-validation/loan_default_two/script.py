import argparse
import json
import time

import numpy as np
import tensorflow as tf
from tensorflow import keras


def applicants(n, seed):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 48), dtype=np.float32)
    logit = x[:, 0] * 1.5 - x[:, 1] + x[:, 2] * x[:, 3] - 1
    y = (rng.random(n) < 1 / (1 + np.exp(-logit))).astype("float32")
    return x, y


def get_model(args):
    inp = keras.Input((48,))
    x = keras.layers.Normalization(mean=0.0, variance=1.0)(inp)
    for _ in range(args.layers):
        h = keras.layers.Dense(args.units, activation="relu")(x)
        h = keras.layers.Dropout(0.1)(h)
        x = keras.layers.Concatenate()([inp, h])
    out = keras.layers.Dense(1, activation="sigmoid")(x)
    model = keras.Model(inp, out)
    model.compile(
        optimizer=keras.optimizers.Adam(args.lr),
        loss="binary_crossentropy",
        metrics=[keras.metrics.AUC(name="auc")],
    )
    return model


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--train", type=int, default=20000)
    p.add_argument("--holdout", type=int, default=60000)
    p.add_argument("--epochs", type=int, default=6)
    p.add_argument("--batch", type=int, default=128)
    p.add_argument("--layers", type=int, default=3)
    p.add_argument("--units", type=int, default=160)
    p.add_argument("--lr", type=float, default=5e-4)
    return p.parse_args()


def main():
    args = parse()
    keras.utils.set_random_seed(99)
    x, y = applicants(args.train, 1)
    xv, yv = applicants(args.holdout, 2)
    train = tf.data.Dataset.from_tensor_slices((x, y)).cache().shuffle(args.train).batch(args.batch).prefetch(2)
    hold = tf.data.Dataset.from_tensor_slices((xv, yv)).batch(args.batch).prefetch(2)
    model = get_model(args)
    t0 = time.time()
    hist = model.fit(
        train,
        validation_data=hold,
        epochs=args.epochs,
        verbose=2,
    )
    secs = time.time() - t0
    print(json.dumps({"auc": hist.history["auc"][-1], "val_auc": hist.history["val_auc"][-1]}))
    print("WORK", args.train * args.epochs)
    print("TRAIN_SECONDS %.2f" % secs)


if __name__ == "__main__":
    main()
