"""Tear strength of sail cloth from its weave spectrum. Keeps an eye on the conditioning of the layers."""
import json
import os
import tempfile
import time

import keras
import numpy as np

keras.utils.set_random_seed(70)


class LayerHealth(keras.callbacks.Callback):
    """Writes the spectral norm and condition number of every kernel to a JSON-lines file."""

    def __init__(self, path):
        super().__init__()
        self.path = path

    def on_train_begin(self, logs=None):
        self.file = open(self.path, "w")

    def measure(self):
        report = {}
        for layer in self.model.layers:
            if not layer.weights:
                continue
            kernel = layer.get_weights()[0]
            s = np.linalg.svd(kernel, compute_uv=False)
            report[layer.name] = [float(s[0]), float(s[0] / max(s[-1], 1e-9))]
        return report

    def on_train_batch_end(self, batch, logs=None):
        self.report = self.measure()

    def on_epoch_end(self, epoch, logs=None):
        self.file.write(json.dumps({"epoch": epoch, **self.report}) + "\n")

    def on_train_end(self, logs=None):
        self.file.close()


def cloth(n=5000, d=160):
    rng = np.random.default_rng(70)
    x = rng.normal(size=(n, d)).astype("float32")
    x[:, 1:] += 0.8 * x[:, :-1]
    y = np.tanh(x[:, :20].mean(1) * 2) + 0.3 * (x[:, 30] > 0)
    return x, y.astype("float32")


x, y = cloth()
model = keras.Sequential()
model.add(keras.Input((x.shape[1],)))
model.add(keras.layers.Dense(192, activation="relu"))
model.add(keras.layers.Dropout(0.1))
model.add(keras.layers.Dense(128, activation="relu"))
model.add(keras.layers.Dense(1))
model.compile(loss="mae", optimizer=keras.optimizers.RMSprop(1e-3))
log = os.path.join(tempfile.mkdtemp(), "health.jsonl")
start = time.time()
h = model.fit(x, y, batch_size=64, epochs=15, verbose=0, validation_split=0.1,
              callbacks=[LayerHealth(log), keras.callbacks.ReduceLROnPlateau(patience=2)])
end = time.time()
print("val mae", [round(v, 3) for v in h.history["val_loss"]])
print(open(log).read().splitlines()[-1])
print("WORK", 15 * 4500)
print("TRAIN_SECONDS %.3f" % (end - start))
