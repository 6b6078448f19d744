"""Churn model for a telecom customer base."""
import argparse

import numpy as np
from tensorflow import keras
from tensorflow.keras import layers, regularizers


def customers(n: int, seed: int = 77):
    rng = np.random.default_rng(seed)
    tenure = rng.exponential(24, n)
    bill = rng.normal(55, 20, n)
    calls = rng.poisson(1.2, n)
    extras = rng.integers(0, 2, (n, 30))
    x = np.column_stack([tenure, bill, calls, extras]).astype("float32")
    logit = -0.05 * tenure + 0.02 * bill + 0.5 * calls - 1.0
    y = (rng.random(n) < 1 / (1 + np.exp(-logit))).astype("float32")
    return x, y


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--customers", type=int, default=60_000)
    parser.add_argument("--batch-size", type=int, default=512)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--hidden", type=int, nargs="+", default=[128, 64])
    parser.add_argument("--l2", type=float, default=1e-5)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    return parser.parse_args()


def build(x_train, args):
    norm = layers.Normalization()
    norm.adapt(x_train[:10_000])
    inp = keras.Input((x_train.shape[1],))
    h = norm(inp)
    for units in args.hidden:
        h = layers.Dense(units, activation="relu",
                         kernel_regularizer=regularizers.l2(args.l2))(h)
        h = layers.Dropout(0.2)(h)
    out = layers.Dense(1, activation="sigmoid")(h)
    model = keras.Model(inp, out)
    model.compile(
        optimizer=keras.optimizers.Adam(args.learning_rate),
        loss="binary_crossentropy",
        metrics=["accuracy", keras.metrics.AUC(name="auc")])
    return model


def main():
    args = parse_args()
    x, y = customers(args.customers)
    cut = int(0.8 * len(x))
    model = build(x[:cut], args)
    model.fit(
        x[:cut], y[:cut],
        batch_size=args.batch_size,
        epochs=args.epochs,
        verbose=2,
    )
    scores = model.evaluate(x[cut:], y[cut:], batch_size=4096, verbose=0, return_dict=True)
    print({k: round(float(v), 4) for k, v in scores.items()})


if __name__ == "__main__":
    main()
