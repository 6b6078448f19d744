"""Nightly retrain of the card-not-present fraud scorer from the feature-store TFRecords."""
import argparse
import json
import logging
import pathlib

import tensorflow as tf
from tensorflow import keras

logging.basicConfig(level=logging.INFO, format="[%(asctime)s] %(message)s")
log = logging.getLogger("fraud-train")

NUM_FEATURES = 48
CATEGORICAL = {"mcc": 1024, "country": 256, "device": 64, "channel": 8}


def feature_spec():
    spec = {name: tf.io.FixedLenFeature([], tf.int64) for name in CATEGORICAL}
    spec["numeric"] = tf.io.FixedLenFeature([NUM_FEATURES], tf.float32)
    spec["label"] = tf.io.FixedLenFeature([], tf.int64)
    return spec


def parse_batch(records):
    parsed = tf.io.parse_example(records, feature_spec())
    label = tf.cast(parsed.pop("label"), tf.float32)
    for name in CATEGORICAL:
        parsed[name] = tf.cast(parsed[name], tf.int32)
    return parsed, label[:, None]


def read(pattern, batch_size, training):
    files = tf.data.Dataset.list_files(pattern, shuffle=False)
    ds = files.interleave(tf.data.TFRecordDataset, cycle_length=16, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.batch(batch_size, drop_remainder=training)
    ds = ds.map(parse_batch, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.cache()
    if training:
        ds = ds.shuffle(200).repeat()
    return ds.prefetch(tf.data.AUTOTUNE)


class FraudModelBuilder:
    def __init__(self, hidden=(512, 256, 128), dropout=0.2):
        self.hidden = hidden
        self.dropout = dropout

    def inputs(self):
        ins = {name: keras.Input((), dtype="int32", name=name) for name in CATEGORICAL}
        ins["numeric"] = keras.Input((NUM_FEATURES,), name="numeric")
        return ins

    def build(self, prior):
        ins = self.inputs()
        parts = [keras.layers.BatchNormalization()(ins["numeric"])]
        for name, vocab in CATEGORICAL.items():
            parts.append(keras.layers.Embedding(vocab, min(32, vocab // 4))(ins[name]))
        x = keras.layers.Concatenate()(parts)
        for units in self.hidden:
            x = keras.layers.Dense(units, activation="relu")(x)
            x = keras.layers.Dropout(self.dropout)(x)
        bias = keras.initializers.Constant(prior)
        out = keras.layers.Dense(1, activation="sigmoid", bias_initializer=bias)(x)
        return keras.Model(ins, out)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--data-dir", type=pathlib.Path, default=pathlib.Path("/feature_store/cnp/latest"))
    ap.add_argument("--model-dir", type=pathlib.Path, default=pathlib.Path("/models/cnp"))
    ap.add_argument("--batch-size", type=int, default=2048)
    ap.add_argument("--epochs", type=int, default=15)
    ap.add_argument("--lr", type=float, default=1e-3)
    args = ap.parse_args()

    stats = json.loads((args.data_dir / "stats.json").read_text())
    num_train = stats["train_rows"]          # around 3.2M
    log.info("train rows %d, fraud prior (log odds) %.3f", num_train, stats["log_odds"])

    train_ds = read(str(args.data_dir / "train-*.tfrecord"), args.batch_size, training=True)
    valid_ds = read(str(args.data_dir / "valid-*.tfrecord"), 8192, training=False)

    model = FraudModelBuilder().build(stats["log_odds"])
    model.compile(
        optimizer=keras.optimizers.Adam(args.lr),
        loss=keras.losses.BinaryFocalCrossentropy(gamma=2.0),
        metrics=[keras.metrics.AUC(curve="PR", name="pr_auc"), keras.metrics.Recall(name="recall")],
    )

    args.model_dir.mkdir(parents=True, exist_ok=True)
    history = model.fit(
        train_ds,
        epochs=args.epochs,
        steps_per_epoch=num_train,
        validation_data=valid_ds,
        callbacks=[
            keras.callbacks.EarlyStopping("val_pr_auc", mode="max", patience=3, restore_best_weights=True),
            keras.callbacks.CSVLogger(str(args.model_dir / "log.csv")),
        ],
        verbose=2,
    )
    model.save(args.model_dir / "scorer.keras")
    log.info("best val pr_auc %.4f", max(history.history["val_pr_auc"]))


if __name__ == "__main__":
    main()
