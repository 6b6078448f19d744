"""Default probability on the retail loan book.

The feature store exports one parquet file per split, a row per loan and snapshot month; all columns
are filled. schema.json lists them:
  {"numeric": ["util_3m", ...168 names], "categorical": {"branch": 612, ...21 names}}
"""
import json
import logging
from pathlib import Path

import keras
import numpy as np
import pandas as pd
import tensorflow as tf
from keras import layers

logging.basicConfig(level=logging.INFO, format="%(levelname).1s %(asctime)s %(message)s")
log = logging.getLogger("loan_book")

ROOT = Path("/srv/feature_store/loans/2024q4")
SCHEMA = json.loads((ROOT / "schema.json").read_text())
NUMERIC = SCHEMA["numeric"]
CATEGORICAL = SCHEMA["categorical"]
STATS = np.load(ROOT / "train_stats.npz")        # mean and std by numeric column, in schema order
BATCH = 4096
EPOCHS = 12
EMBED = 16


def row_batches(n, training):
    if not training:
        starts = tf.data.Dataset.range(0, n, BATCH)
        return starts.map(lambda s: tf.range(s, tf.minimum(s + BATCH, n)))
    steps = n // BATCH
    orders = tf.data.Dataset.range(1).map(lambda _: tf.random.shuffle(tf.range(n, dtype=tf.int64)))
    return orders.flat_map(lambda order: tf.data.Dataset.from_tensor_slices(
        tf.reshape(order[:steps * BATCH], [steps, BATCH])))


def snapshots(split, training=False):
    frame = pd.read_parquet(ROOT / f"{split}.parquet")
    log.info("%s: %d rows, default rate %.4f", split, len(frame), frame["defaulted"].mean())
    with tf.device("CPU:0"):
        numeric = tf.constant(frame[NUMERIC].to_numpy("float32"))
        ids = tf.constant(frame[list(CATEGORICAL)].to_numpy("int64"))
        target = tf.constant(frame[["defaulted"]].to_numpy("float32"))

    def pick(rows):
        features = {"numeric": tf.gather(numeric, rows), "ids": tf.gather(ids, rows)}
        return features, tf.gather(target, rows)

    ds = row_batches(len(frame), training)
    return ds.map(pick, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


@keras.saving.register_keras_serializable("loans")
class OffsetEmbedding(layers.Layer):
    """One table for all the categorical columns, each with its own range of rows."""

    def __init__(self, sizes, dim, **kwargs):
        super().__init__(**kwargs)
        self.sizes, self.dim = list(sizes), dim
        self.offsets = np.concatenate([[0], np.cumsum(self.sizes)[:-1]]).astype("int64")
        self.table = layers.Embedding(int(np.sum(self.sizes)), dim)
        self.flat = layers.Flatten()

    def call(self, ids):
        return self.flat(self.table(ids + self.offsets))

    def get_config(self):
        return {**super().get_config(), "sizes": self.sizes, "dim": self.dim}


def build_model():
    inputs = {
        "numeric": keras.Input((len(NUMERIC),), name="numeric", dtype="float32"),
        "ids": keras.Input((len(CATEGORICAL),), name="ids", dtype="int64"),
    }
    numeric = layers.Normalization(mean=STATS["mean"], variance=STATS["std"] ** 2,
                                   dtype="float32")(inputs["numeric"])
    codes = OffsetEmbedding(CATEGORICAL.values(), EMBED)(inputs["ids"])
    x = layers.Concatenate()([numeric, codes])
    x = layers.Dense(512, activation="relu")(x)
    for i in range(3):
        y = layers.LayerNormalization()(x)
        y = layers.Dense(512, activation="relu", name=f"res{i}_a")(y)
        y = layers.Dropout(0.15)(y)
        y = layers.Dense(512, name=f"res{i}_b")(y)
        x = layers.Add()([x, y])
    x = layers.Dense(64, activation="relu")(x)
    out = layers.Dense(1, activation="sigmoid", dtype="float32", name="pd")(x)
    return keras.Model(inputs, out, name="loan_pd")


def gini(auc):
    return 2.0 * auc - 1.0


def main():
    keras.utils.set_random_seed(99)
    keras.mixed_precision.set_global_policy("mixed_bfloat16")
    train, valid, test = snapshots("train", True), snapshots("valid"), snapshots("oot")

    model = build_model()
    log.info("%d parameters", model.count_params())
    model.compile(
        optimizer=keras.optimizers.Adam(1e-3),
        loss=keras.losses.BinaryCrossentropy(),
        metrics=[keras.metrics.AUC(num_thresholds=500, name="auc"),
                 keras.metrics.AUC(curve="PR", num_thresholds=500, name="pr")],
    )
    history = model.fit(
        train,
        validation_data=valid,
        epochs=EPOCHS,
        callbacks=[
            keras.callbacks.ReduceLROnPlateau("val_auc", mode="max", factor=0.3, patience=1),
            keras.callbacks.EarlyStopping("val_auc", mode="max", patience=3,
                                          restore_best_weights=True),
        ],
        verbose=2,
    )
    best = max(history.history["val_auc"])
    log.info("validation gini %.4f", gini(best))

    report = model.evaluate(test, return_dict=True, verbose=0)
    log.info("out-of-time gini %.4f, PR-AUC %.4f", gini(report["auc"]), report["pr"])
    model.save("loan_pd.keras")
    Path("loan_pd.json").write_text(json.dumps({"valid_auc": best, **report}, indent=2))


if __name__ == "__main__":
    main()
