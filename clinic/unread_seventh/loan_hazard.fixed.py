"""Ranking of mortgages by hazard of default (deep Cox model on payment histories).

Portfolio: ~420 k loans, 36 monthly snapshots each. Some 0.4 % default inside the window, the
others are censored when they are paid off or at the cut-off date.
"""
import datetime as dt
import json
import logging
import os

import numpy as np
import pandas as pd
import tensorflow as tf
import yaml
from tensorflow import keras
from tensorflow.keras import layers

logger = logging.getLogger(__name__)

DEFAULTS = dict(data="portfolio", out="models", batch=256, epochs=15, lr=8e-4, width=128,
                dropout=0.2, seed=31)
PURPOSES = ["purchase", "refinance", "cash_out", "construction", "other"]


class Portfolio:
    def __init__(self, folder):
        self.history = np.load(os.path.join(folder, "history.npy"))   # float16 (n, 36, 16), scaled
        table = pd.read_parquet(os.path.join(folder, "loans.parquet"))
        self.numeric = table[["ltv", "dti", "fico", "rate", "term", "log_amount"]].to_numpy("float32")
        self.purpose = pd.Categorical(table["purpose"], categories=PURPOSES).codes.astype("int32") + 1
        self.target = np.stack([table["months"], table["defaulted"]], 1).astype("float32")
        self.vintage = table["origination_year"].to_numpy()

    def where(self, mask):
        mean, std = self.numeric.mean(0), self.numeric.std(0)
        x = {"history": self.history[mask],
             "numeric": (self.numeric[mask] - mean) / std,
             "purpose": self.purpose[mask]}
        return x, self.target[mask]


class HazardNet:
    """Builds, trains and scores; `fit` returns the Keras history."""

    def __init__(self, cfg):
        self.cfg = cfg
        self.model = self._build()

    def _build(self):
        w = self.cfg["width"]
        history = keras.Input((36, 16), name="history", dtype="float16")
        numeric = keras.Input((6,), name="numeric")
        purpose = keras.Input((), name="purpose", dtype="int32")
        h = layers.Dense(w, activation="gelu")(history)
        h = layers.GRU(w, return_sequences=True)(h)
        a = layers.MultiHeadAttention(4, w // 4)(h, h)
        h = layers.LayerNormalization()(layers.Add()([h, a]))
        h = layers.GlobalAveragePooling1D()(h)
        p = layers.Embedding(len(PURPOSES) + 1, 8)(purpose)
        z = layers.Concatenate()([h, numeric, p])
        for units in (w, w // 2):
            z = layers.Dense(units, activation="gelu")(z)
            z = layers.Dropout(self.cfg["dropout"])(z)
        return keras.Model({"history": history, "numeric": numeric, "purpose": purpose},
                           layers.Dense(1, use_bias=False)(z))

    @staticmethod
    def partial_likelihood(y, risk):
        months, event = y[:, 0], y[:, 1]
        order = tf.argsort(months, direction="DESCENDING")
        risk = tf.gather(risk[:, 0], order)
        event = tf.gather(event, order)
        at_risk = tf.math.cumulative_logsumexp(risk)
        return tf.math.divide_no_nan(tf.reduce_sum((at_risk - risk) * event), tf.reduce_sum(event))

    def fit(self, train, valid):
        cfg = self.cfg
        steps = len(train[1]) // cfg["batch"]
        tds = tf.data.Dataset.from_tensor_slices(train).shuffle(100_000)
        tds = tds.batch(cfg["batch"], drop_remainder=True).prefetch(tf.data.AUTOTUNE)
        vds = tf.data.Dataset.from_tensor_slices(valid).batch(8192).prefetch(tf.data.AUTOTUNE)
        lr = keras.optimizers.schedules.CosineDecay(cfg["lr"], steps * cfg["epochs"])
        self.model.compile(optimizer=keras.optimizers.Adam(lr, clipnorm=1.0),
                           loss=self.partial_likelihood, steps_per_execution=16)
        return self.model.fit(tds, validation_data=vds, epochs=cfg["epochs"], verbose=2, callbacks=[
            keras.callbacks.EarlyStopping(patience=4, restore_best_weights=True),
            keras.callbacks.TensorBoard(os.path.join(cfg["out"], "tb")),
        ])

    def score(self, x):
        return self.model.predict(x, batch_size=8192, verbose=0)[:, 0]


def concordance(target, risk, pairs=2_000_000, seed=0):
    rng = np.random.default_rng(seed)
    bad = rng.choice(np.flatnonzero(target[:, 1] == 1), pairs)
    other = rng.integers(0, len(target), pairs)
    usable = target[other, 0] > target[bad, 0]
    bad, other = bad[usable], other[usable]
    return float(np.mean((risk[bad] > risk[other]) + 0.5 * (risk[bad] == risk[other])))


def main():
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    cfg = dict(DEFAULTS)
    if os.path.exists("hazard.yaml"):
        with open("hazard.yaml") as fh:
            cfg.update(yaml.safe_load(fh) or {})
    keras.utils.set_random_seed(cfg["seed"])
    os.makedirs(cfg["out"], exist_ok=True)

    book = Portfolio(cfg["data"])
    train = book.where(book.vintage < 2018)
    valid = book.where(book.vintage == 2018)
    test = book.where(book.vintage > 2018)
    logger.info("loans: %d / %d / %d", len(train[1]), len(valid[1]), len(test[1]))

    net = HazardNet(cfg)
    hist = net.fit(train, valid)
    card = {"date": dt.date.today().isoformat(), "config": cfg,
            "val_loss": float(min(hist.history["val_loss"])),
            "concordance": concordance(test[1], net.score(test[0]))}
    logger.info("concordance %.4f", card["concordance"])
    net.model.save(os.path.join(cfg["out"], "hazard.keras"))
    with open(os.path.join(cfg["out"], "card.json"), "w") as fh:
        json.dump(card, fh, indent=2)


if __name__ == "__main__":
    main()
