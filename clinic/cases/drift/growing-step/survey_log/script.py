"""Survey scores; the training log is kept as CSV and its best line is looked up as training goes."""
import csv
import os
import tempfile
import time
import numpy as np
import keras


class CsvTrail(keras.callbacks.Callback):
    def __init__(self, path):
        super().__init__()
        self.path = path
        open(path, "w").close()

    def on_train_batch_end(self, batch, logs=None):
        with open(self.path, "a", newline="") as f:
            csv.writer(f).writerow([batch, logs["loss"]])
        with open(self.path, newline="") as f:
            rows = [(int(b), float(loss)) for b, loss in csv.reader(f)]
        self.best = min(rows, key=lambda row: row[1])


x = np.random.rand(16_000, 40).astype("float32")
y = x.mean(1)
model = keras.Sequential([keras.Input((40,)), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(x[:640], y[:640], batch_size=32, epochs=1, verbose=0)
trail = CsvTrail(os.path.join(tempfile.mkdtemp(), "trail.csv"))
t0 = time.time()
model.fit(x, y, batch_size=32, epochs=5, verbose=2, callbacks=[trail])
print("best", trail.best)
print("WORK", 5 * len(x))
print("TRAIN_SECONDS %.3f" % (time.time() - t0))
