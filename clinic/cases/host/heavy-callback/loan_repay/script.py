"""Repayment model for small loans, with a notebook of how the weights spread while it learns."""
import json
import os
import tempfile

import numpy as np
import keras
from keras import layers


class WeightNotebook(keras.callbacks.Callback):
    def __init__(self, folder, bins=60):
        super().__init__()
        self.folder = folder
        self.bins = bins
        self.page = 0

    def on_train_batch_end(self, batch, logs=None):
        record = {"page": self.page, "logs": {k: float(v) for k, v in (logs or {}).items()}, "spread": {}}
        for weight in self.model.weights:
            values = weight.numpy().ravel()
            counts, edges = np.histogram(values, bins=self.bins)
            record["spread"][weight.path] = {
                "counts": counts.tolist(),
                "edges": edges.tolist(),
                "quantiles": np.quantile(values, [0.05, 0.5, 0.95]).tolist(),
            }
        with open(os.path.join(self.folder, "notebook.jsonl"), "a") as handle:
            handle.write(json.dumps(record) + "\n")
        self.page += 1


def applicants(count=24000, columns=40, seed=13):
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(count, columns)).astype("float32")
    hidden = rng.normal(size=columns) / np.sqrt(columns)
    repaid = (table @ hidden + 0.5 * rng.normal(size=count) > 0).astype("float32")
    return table, repaid


def network(columns):
    return keras.Sequential([
        keras.Input((columns,)),
        layers.Dense(256, activation="relu"),
        layers.Dropout(0.2),
        layers.Dense(256, activation="relu"),
        layers.Dropout(0.2),
        layers.Dense(64, activation="relu"),
        layers.Dense(1, activation="sigmoid"),
    ])


def main():
    table, repaid = applicants()
    model = network(table.shape[1])
    model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
    with tempfile.TemporaryDirectory() as folder:
        model.fit(table, repaid, batch_size=128, epochs=4, verbose=2, callbacks=[WeightNotebook(folder)])
        size = os.path.getsize(os.path.join(folder, "notebook.jsonl"))
    print("notebook:", size, "bytes")


if __name__ == "__main__":
    main()
