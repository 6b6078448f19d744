"""Tulip bulb grading from weight, girth and near-infrared readings (multi-output)."""
import csv
import pathlib
import tempfile

import numpy as np
import keras
from keras import layers

NIR = 60
EFFECTIVE_BATCH = 64
MICRO_BATCH = 2          # fits on the laptop at home


def sorting_belt(path, n=2560):
    rng = np.random.default_rng(29)
    grade = rng.integers(0, 4, n)
    nir = rng.normal(0, 1, (n, NIR)) + grade[:, None] * np.linspace(0, .4, NIR)
    weight = 18 + 4 * grade + rng.normal(0, 2, n)
    with open(path, "w", newline="") as f:
        w = csv.writer(f)
        w.writerow(["grade", "weight"] + [f"nir{k}" for k in range(NIR)])
        w.writerows(np.column_stack([grade, weight, nir]).round(4).tolist())


def load(path):
    raw = np.loadtxt(path, delimiter=",", skiprows=1, dtype="float32")
    x = raw[:, 2:]
    x = (x - x.mean(0)) / x.std(0)
    return x, {"grade": raw[:, 0].astype("int32"), "weight": (raw[:, 1:2] - 24) / 6}


def grader():
    nir = keras.Input((NIR,), name="nir")
    x = layers.Dense(96, activation="silu")(nir)
    x = layers.Dense(96, activation="silu")(x)
    return keras.Model(nir, {
        "grade": layers.Dense(4, activation="softmax", name="grade")(x),
        "weight": layers.Dense(1, name="weight")(x),
    })


def main():
    keras.utils.set_random_seed(29)
    with tempfile.TemporaryDirectory() as tmp:
        path = pathlib.Path(tmp) / "belt.csv"
        sorting_belt(path)
        x, y = load(path)
    model = grader()
    model.compile(
        optimizer=keras.optimizers.Adam(
            3e-3, gradient_accumulation_steps=EFFECTIVE_BATCH // MICRO_BATCH),
        loss={"grade": "sparse_categorical_crossentropy", "weight": "mse"},
        loss_weights={"grade": 1.0, "weight": 0.3},
    )
    model.fit(x, y, batch_size=MICRO_BATCH, epochs=4, shuffle=False, verbose=2)
    print("on all bulbs", model.evaluate(x, y, batch_size=256, verbose=0))


if __name__ == "__main__":
    main()
