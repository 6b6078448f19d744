"""Predict ATAC-seq peaks from 600 bp of DNA.  peaks_*.tsv.gz: columns seq, open (0/1)."""
import argparse
import random

import numpy as np
import pandas as pd
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

SEQ_LEN = 600
CODE = {"A": 0, "C": 1, "G": 2, "T": 3, "N": 4}
COMPLEMENT = {"A": "T", "C": "G", "G": "C", "T": "A", "N": "N"}


def read_peaks(path):
    df = pd.read_csv(path, sep="\t")
    df = df[df["seq"].str.len() == SEQ_LEN]
    return df["seq"].str.upper().tolist(), df["open"].to_numpy(np.float32)


def make_dataset(seqs, labels, batch_size, training):
    def samples():
        order = list(range(len(seqs)))
        if training:
            random.shuffle(order)
        for i in order:
            s = seqs[i]
            if training and random.random() < 0.5:
                s = "".join(COMPLEMENT[c] for c in reversed(s))
            yield np.array([CODE[c] for c in s], dtype=np.uint8), labels[i]

    ds = tf.data.Dataset.from_generator(
        samples,
        output_signature=(
            tf.TensorSpec((SEQ_LEN,), tf.uint8),
            tf.TensorSpec((), tf.float32),
        ),
    )
    return ds.batch(batch_size).prefetch(tf.data.AUTOTUNE)


class OneHotDNA(layers.Layer):
    def call(self, codes):
        return tf.one_hot(tf.cast(codes, tf.int32), 4)


def build_model(n_filters=256):
    inp = keras.Input((SEQ_LEN,), dtype="uint8")
    x = OneHotDNA()(inp)
    x = layers.Conv1D(n_filters, 19, padding="same", activation="relu")(x)
    x = layers.MaxPooling1D(4)(x)
    for _ in range(3):
        x = layers.Conv1D(128, 7, padding="same", use_bias=False)(x)
        x = layers.BatchNormalization()(x)
        x = layers.ReLU()(x)
        x = layers.MaxPooling1D(2)(x)
    x = layers.GlobalMaxPooling1D()(x)
    x = layers.Dense(128, activation="relu")(x)
    x = layers.Dropout(0.4)(x)
    return keras.Model(inp, layers.Dense(1, activation="sigmoid")(x))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--train", default="peaks_train.tsv.gz")  # ~180k rows
    ap.add_argument("--valid", default="peaks_chr8.tsv.gz")   # ~12k rows
    ap.add_argument("--batch-size", type=int, default=256)
    ap.add_argument("--epochs", type=int, default=30)
    ap.add_argument("--lr", type=float, default=1e-3)
    args = ap.parse_args()

    train = make_dataset(*read_peaks(args.train), args.batch_size, training=True)
    valid = make_dataset(*read_peaks(args.valid), args.batch_size, training=False)

    model = build_model()
    model.compile(
        optimizer=keras.optimizers.AdamW(args.lr),
        loss="binary_crossentropy",
        metrics=[keras.metrics.AUC(name="auroc"), keras.metrics.AUC(curve="PR", name="auprc")],
    )
    model.fit(
        train,
        validation_data=valid,
        epochs=args.epochs,
        callbacks=[
            keras.callbacks.ModelCheckpoint(
                "open_chromatin.weights.h5", monitor="val_auprc", mode="max",
                save_best_only=True, save_weights_only=True),
            keras.callbacks.EarlyStopping("val_auprc", mode="max", patience=6),
        ],
    )


if __name__ == "__main__":
    main()
