"""Early warning of sepsis from the first 48 hours of an ICU stay.

Reads the flat event export of the data warehouse (one row per measurement, ~11 M rows)
and the stay table (~38 k stays), trains a GRU on hourly grids, reports AUROC and AUPRC.
"""
from __future__ import annotations

import argparse
import json
import logging
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import tensorflow as tf
from sklearn.metrics import average_precision_score, roc_auc_score
from tensorflow import keras

LOG = logging.getLogger("sepsis")
HOURS = 48
VITALS = ["hr", "map", "sbp", "dbp", "resp", "temp", "spo2", "gcs", "fio2", "urine"]
LABS = ["lactate", "creat", "bili", "plt", "wbc", "hgb", "na", "k", "cl", "hco3", "bun", "glucose",
        "ph", "pao2", "paco2", "inr", "alb", "trop", "crp", "pct", "alt", "ast"]
VARS = VITALS + LABS


@dataclass
class Split:
    grid: np.ndarray      # (stays, HOURS, 2 * len(VARS)), values then observed flags
    static: np.ndarray    # (stays, 3)
    label: np.ndarray


def read_tables(folder: Path):
    events = pd.read_csv(folder / "events.csv.gz", usecols=["stay_id", "hour", "name", "value"],
                         dtype={"stay_id": "int32", "hour": "float32", "name": "category",
                                "value": "float32"})
    events = events[events["name"].isin(VARS) & (events["hour"] >= 0) & (events["hour"] < HOURS)]
    events = events.dropna(subset=["value"]).sort_values(["stay_id", "hour"], kind="stable")
    stays = pd.read_csv(folder / "stays.csv").sort_values("stay_id").reset_index(drop=True)
    LOG.info("%d events over %d stays", len(events), len(stays))
    return events, stays


def to_grid(events, stays):
    column = {name: i for i, name in enumerate(VARS)}
    grid = np.full((len(stays), HOURS, len(VARS)), np.nan, dtype="float32")
    by_stay = events.groupby("stay_id")
    for i, stay_id in enumerate(stays["stay_id"]):
        if stay_id not in by_stay.groups:
            continue
        g = by_stay.get_group(stay_id)
        for hour, name, value in zip(g["hour"], g["name"], g["value"]):
            grid[i, int(hour), column[name]] = value
    seen = ~np.isnan(grid)
    for i in range(len(stays)):
        for v in range(len(VARS)):
            last = np.nan
            for h in range(HOURS):
                if seen[i, h, v]:
                    last = grid[i, h, v]
                else:
                    grid[i, h, v] = last
    return grid, seen


def prepare(folder: Path, seed: int):
    events, stays = read_tables(folder)
    grid, seen = to_grid(events, stays)
    rng = np.random.default_rng(seed)
    fold = rng.choice(3, size=len(stays), p=[0.7, 0.15, 0.15])
    flat = grid[fold == 0].reshape(-1, len(VARS))
    mean, std = np.nanmean(flat, 0), np.nanstd(flat, 0) + 1e-6
    grid = np.nan_to_num(np.clip((grid - mean) / std, -6.0, 6.0), nan=0.0)
    full = np.concatenate([grid, seen.astype("float32")], -1)
    static = np.stack([stays["age"] / 100.0, stays["sex"] == "F", stays["emergency"]], 1).astype("float32")
    label = stays["sepsis"].to_numpy("float32")
    return [Split(full[fold == k], static[fold == k], label[fold == k]) for k in range(3)]


def dataset(split: Split, batch: int, training: bool):
    ds = tf.data.Dataset.from_tensor_slices(
        ({"grid": split.grid, "static": split.static}, split.label))
    if training:
        ds = ds.shuffle(len(split.label))
    return ds.batch(batch, drop_remainder=training).prefetch(tf.data.AUTOTUNE)


def build(units: int) -> keras.Model:
    grid = keras.Input((HOURS, 2 * len(VARS)), name="grid")
    static = keras.Input((3,), name="static")
    x = keras.layers.Dense(units, activation="relu")(grid)
    x = keras.layers.GRU(units, return_sequences=True)(x)
    x = keras.layers.GRU(units)(x)
    x = keras.layers.Concatenate()([x, static])
    x = keras.layers.Dropout(0.3)(keras.layers.Dense(64, activation="relu")(x))
    out = keras.layers.Dense(1, activation="sigmoid")(x)
    return keras.Model({"grid": grid, "static": static}, out)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, default=Path("runs/sepsis"))
    parser.add_argument("--units", type=int, default=128)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--epochs", type=int, default=25)
    parser.add_argument("--seed", type=int, default=17)
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO)
    args.out.mkdir(parents=True, exist_ok=True)
    keras.utils.set_random_seed(args.seed)

    train, valid, test = prepare(args.folder, args.seed)
    prevalence = float(train.label.mean())
    model = build(args.units)
    model.compile(optimizer=keras.optimizers.Adam(1e-3, clipnorm=1.0),
                  loss="binary_crossentropy",
                  metrics=[keras.metrics.AUC(name="auroc"), keras.metrics.AUC(curve="PR", name="auprc")])
    model.fit(dataset(train, args.batch, True), epochs=args.epochs, verbose=2,
              validation_data=dataset(valid, 2048, False),
              class_weight={0: 1.0, 1: min(10.0, (1 - prevalence) / prevalence)},
              callbacks=[
                  keras.callbacks.EarlyStopping("val_auprc", mode="max", patience=5,
                                                restore_best_weights=True),
                  keras.callbacks.TensorBoard(str(args.out / "tb")),
              ])
    prob = model.predict(dataset(test, 2048, False))[:, 0]
    report = {"auroc": float(roc_auc_score(test.label, prob)),
              "auprc": float(average_precision_score(test.label, prob))}
    (args.out / "test.json").write_text(json.dumps(report, indent=1))
    LOG.info("%s", report)
    model.save(args.out / "model.keras")


if __name__ == "__main__":
    main()
