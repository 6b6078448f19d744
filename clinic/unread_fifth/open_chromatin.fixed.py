"""Predict ATAC-seq peaks from 600 bp of DNA.  peaks_*.tsv.gz: columns seq, open (0/1)."""
import argparse

import numpy as np
import pandas as pd
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

SEQ_LEN = 600
ASCII_TO_CODE = np.full(256, 4, dtype=np.uint8)
ASCII_TO_CODE[np.frombuffer(b"ACGT", dtype=np.uint8)] = [0, 1, 2, 3]
COMPLEMENT = [3, 2, 1, 0, 4]


def read_peaks(path):
    df = pd.read_csv(path, sep="\t")
    df = df[df["seq"].str.len() == SEQ_LEN]
    raw = np.frombuffer("".join(df["seq"].str.upper()).encode("ascii"), dtype=np.uint8)
    codes = ASCII_TO_CODE[raw].reshape(-1, SEQ_LEN)
    return codes, df["open"].to_numpy(np.float32)


def random_strand(codes, labels):
    flip = tf.random.uniform([tf.shape(codes)[0], 1]) < 0.5
    other = tf.gather(tf.constant(COMPLEMENT, tf.uint8), tf.cast(codes[:, ::-1], tf.int32))
    return tf.where(flip, other, codes), labels


def make_dataset(codes, labels, batch_size, training):
    ds = tf.data.Dataset.from_tensor_slices((codes, labels))
    if training:
        ds = ds.shuffle(20000)
    ds = ds.batch(batch_size)
    if training:
        ds = ds.map(random_strand, num_parallel_calls=tf.data.AUTOTUNE)
    return ds.prefetch(tf.data.AUTOTUNE)


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
