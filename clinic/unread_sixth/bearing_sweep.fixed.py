"""Random search with 5-fold CV for the bearing-wear classifier (vibration spectra of the pump fleet)."""
import argparse
import json
import logging
import os
import random
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from sklearn.model_selection import StratifiedKFold
from tensorflow import keras
from tensorflow.keras import layers

logger = logging.getLogger("sweep")

SPACE = {
    "width": [1024, 2048, 3072],
    "depth": [2, 3, 4],
    "dropout": [0.1, 0.25, 0.4],
    "lr": [3e-4, 1e-3, 2e-3],
    "batch_size": [512, 1024],
}


@dataclass
class Trial:
    number: int
    params: dict
    models: list = field(default_factory=list)
    scores: list = field(default_factory=list)

    @property
    def score(self):
        return float(np.mean(self.scores))


def load(folder):
    spectra = np.load(os.path.join(folder, "spectra.npy")).astype("float32")  # (86000, 4096)
    meta = pd.read_csv(os.path.join(folder, "meta.csv"))
    y = meta["wear_stage"].to_numpy("int32")
    return np.log1p(spectra), y


def sample(rng):
    return {k: rng.choice(v) for k, v in SPACE.items()}


def build(params, n_features, n_classes, x_stats):
    mean, var = x_stats
    inp = keras.Input((n_features,))
    x = layers.Normalization(mean=mean, variance=var)(inp)
    for _ in range(params["depth"]):
        x = layers.Dense(params["width"], activation="relu")(x)
        x = layers.BatchNormalization()(x)
        x = layers.Dropout(params["dropout"])(x)
    out = layers.Dense(n_classes, activation="softmax")(x)
    model = keras.Model(inp, out)
    model.compile(
        optimizer=keras.optimizers.Adam(params["lr"]),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    return model


def run_trial(number, params, x, y, folds, epochs):
    trial = Trial(number, params)
    for fold, (tr, va) in enumerate(folds):
        stats = x[tr].mean(axis=0), x[tr].var(axis=0)
        model = build(params, x.shape[1], int(y.max()) + 1, stats)
        hist = model.fit(
            x[tr], y[tr],
            validation_data=(x[va], y[va]),
            batch_size=params["batch_size"],
            epochs=epochs,
            callbacks=[keras.callbacks.EarlyStopping("val_accuracy", mode="max", patience=4, restore_best_weights=True)],
            verbose=0,
        )
        best = max(hist.history["val_accuracy"])
        trial.models.append(model)
        trial.scores.append(best)
        logger.info("trial %d fold %d acc %.4f", number, fold, best)
    return trial


def export(best, out):
    os.makedirs(out, exist_ok=True)
    for i, model in enumerate(best.models):
        model.save(os.path.join(out, f"fold{i}.keras"))
    with open(os.path.join(out, "params.json"), "w") as fh:
        json.dump({"trial": best.number, "params": best.params, "cv_accuracy": best.score}, fh, indent=2)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--folder", default="/data/pumps")
    ap.add_argument("--out", default="best_model")
    ap.add_argument("--trials", type=int, default=40)
    ap.add_argument("--epochs", type=int, default=30)
    ap.add_argument("--seed", type=int, default=0)
    args = ap.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")

    x, y = load(args.folder)
    folds = list(StratifiedKFold(5, shuffle=True, random_state=args.seed).split(x, y))
    rng = random.Random(args.seed)

    trials = []
    best_score = -1.0
    for number in range(args.trials):
        trial = run_trial(number, sample(rng), x, y, folds, args.epochs)
        logger.info("trial %d mean %.4f", number, trial.score)
        if trial.score > best_score:
            best_score = trial.score
            export(trial, args.out)
        trial.models.clear()
        keras.backend.clear_session()
        trials.append(trial)

    trials.sort(key=lambda t: t.score, reverse=True)
    pd.DataFrame([{**t.params, "score": t.score} for t in trials]).to_csv("sweep.csv", index=False)


if __name__ == "__main__":
    main()
