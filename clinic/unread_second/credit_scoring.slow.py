import argparse
import json

import keras
import numpy as np
import tensorflow as tf
from keras import layers


def applicants(n, seed=21):
    rng = np.random.default_rng(seed)
    income = rng.lognormal(10.3, 0.5, n)
    debt = income * rng.beta(2, 5, n)
    history = rng.normal(size=(n, 26))
    risk = debt / income * 4 - history[:, 0] + 0.5 * history[:, 1] * history[:, 2]
    y = (rng.random(n) < 1 / (1 + np.exp(2.0 - risk))).astype("float32")
    x = np.column_stack([np.log(income), np.log(debt), history])
    x = (x - x.mean(0)) / x.std(0)
    return x.astype("float32"), y


def get_args():
    p = argparse.ArgumentParser(description="default probability model")
    p.add_argument("--rows", type=int, default=120_000)
    p.add_argument("--width", type=int, default=64)
    p.add_argument("--layers", type=int, default=3)
    p.add_argument("--dropout", type=float, default=0.1)
    p.add_argument("--batch-size", type=int, default=8)
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--learning-rate", type=float, default=1e-3)
    return p.parse_args()


def build(n_features, args):
    inputs = keras.Input((n_features,))
    x = inputs
    for _ in range(args.layers):
        x = layers.Dense(args.width, use_bias=False)(x)
        x = layers.BatchNormalization()(x)
        x = layers.Activation("relu")(x)
        x = layers.Dropout(args.dropout)(x)
    return keras.Model(inputs, layers.Dense(1, activation="sigmoid")(x))


def gini(auc):
    return 2 * auc - 1


def main():
    args = get_args()
    x, y = applicants(args.rows)
    cut = int(0.8 * len(x))

    train = (
        tf.data.Dataset.from_tensor_slices((x[:cut], y[:cut]))
        .shuffle(10_000)
        .batch(args.batch_size, drop_remainder=True)
        .prefetch(tf.data.AUTOTUNE)
    )
    test = tf.data.Dataset.from_tensor_slices((x[cut:], y[cut:])).batch(4096).prefetch(1)

    model = build(x.shape[1], args)
    model.compile(
        optimizer=keras.optimizers.Adam(args.learning_rate),
        loss="binary_crossentropy",
        metrics=[keras.metrics.AUC(name="auc")],
    )
    model.fit(train, epochs=args.epochs, verbose=2)
    scores = model.evaluate(test, verbose=0, return_dict=True)
    print(json.dumps({"auc": round(scores["auc"], 4), "gini": round(gini(scores["auc"]), 4)}))


if __name__ == "__main__":
    main()
