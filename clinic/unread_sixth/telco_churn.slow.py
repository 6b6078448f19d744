import argparse
import csv
import logging
import os
import time

import numpy as np
import pandas as pd
from tensorflow import keras
from tensorflow.keras import layers

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)-7s %(message)s")
logger = logging.getLogger("churn")

CATS = ["plan", "region", "handset", "acquisition_channel"]
TARGET = "churned_90d"


class AuditTrail(keras.callbacks.Callback):
    """Model-risk wants weight statistics and a recoverable state for every training run."""

    def __init__(self, folder):
        super().__init__()
        self.folder = folder
        self.path = os.path.join(folder, "weights_audit.csv")
        self.counter = 0

    def on_train_begin(self, logs=None):
        os.makedirs(self.folder, exist_ok=True)
        with open(self.path, "w", newline="") as fh:
            csv.writer(fh).writerow(["n", "time", "variable", "mean", "std", "min", "max", "p99", "loss"])

    def record(self, logs):
        self.counter += 1
        now = time.time()
        with open(self.path, "a", newline="") as fh:
            writer = csv.writer(fh)
            for layer in self.model.layers:
                for i, w in enumerate(layer.get_weights()):
                    writer.writerow([self.counter, now, f"{layer.name}/{i}", w.mean(), w.std(), w.min(), w.max(),
                                     np.quantile(np.abs(w), 0.99), (logs or {}).get("loss")])
        self.model.save_weights(os.path.join(self.folder, "latest.weights.h5"))

    def on_train_batch_end(self, batch, logs=None):
        self.record(logs)


def load_customers(path):
    df = pd.read_csv(path, dtype={c: "category" for c in CATS})
    vocab = {}
    for c in CATS:
        df[c] = df[c].cat.add_categories("__missing__").fillna("__missing__")
        vocab[c] = len(df[c].cat.categories)
        df[c] = df[c].cat.codes.astype("int32")
    numeric = [c for c in df.columns if c not in CATS + [TARGET, "customer_id", "snapshot"]]
    df[numeric] = df[numeric].fillna(df[numeric].median()).astype("float32")
    return df, numeric, vocab


def to_inputs(df, numeric):
    x = {c: df[c].to_numpy() for c in CATS}
    x["numeric"] = df[numeric].to_numpy("float32")
    return x, df[TARGET].to_numpy("float32")


def build(numeric_train, vocab):
    norm = layers.Normalization()
    norm.adapt(numeric_train)
    num = keras.Input((numeric_train.shape[1],), name="numeric")
    ins, parts = {"numeric": num}, [norm(num)]
    for c in CATS:
        ins[c] = keras.Input((), dtype="int32", name=c)
        parts.append(layers.Embedding(vocab[c], 16)(ins[c]))
    x = layers.Concatenate()(parts)
    for units in (1024, 512, 256):
        h = layers.Dense(units, activation="relu")(x)
        x = layers.Dropout(0.3)(layers.BatchNormalization()(h))
    return keras.Model(ins, layers.Dense(1, activation="sigmoid")(x))


def main():
    parser = argparse.ArgumentParser(description="Train the 90 day churn model")
    parser.add_argument("--snapshots", default="dwh/churn_snapshots.csv")   # 1.1M customer-months
    parser.add_argument("--valid-from", default="2023-10-01")
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--out", default="runs/churn")
    args = parser.parse_args()

    df, numeric, vocab = load_customers(args.snapshots)
    train, valid = df[df["snapshot"] < args.valid_from], df[df["snapshot"] >= args.valid_from]
    logger.info("train %d valid %d numeric features %d", len(train), len(valid), len(numeric))
    x_train, y_train = to_inputs(train, numeric)
    x_valid, y_valid = to_inputs(valid, numeric)

    model = build(x_train["numeric"], vocab)
    model.compile(optimizer=keras.optimizers.AdamW(1e-3, weight_decay=1e-4), loss="binary_crossentropy",
                  metrics=[keras.metrics.AUC(name="auc")])
    pos = float(y_train.mean())
    model.fit(
        x_train, y_train,
        validation_data=(x_valid, y_valid),
        validation_batch_size=8192,
        batch_size=args.batch_size,
        epochs=args.epochs,
        class_weight={0: 0.5 / (1 - pos), 1: 0.5 / pos},
        callbacks=[AuditTrail(args.out), keras.callbacks.EarlyStopping("val_auc", mode="max", patience=4)],
        verbose=2,
    )
    model.save(os.path.join(args.out, "churn.keras"))


if __name__ == "__main__":
    main()
