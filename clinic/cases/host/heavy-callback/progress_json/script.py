"""Wine quality regression with a progress file for the group's dashboard."""
import json
import os
import tempfile
import time
import numpy as np
import keras


class Dashboard(keras.callbacks.Callback):
    def __init__(self, path):
        super().__init__()
        self.path = path
        self.state = {"batches": [], "predictions": []}

    def update(self, logs):
        self.state["batches"].append({k: float(v) for k, v in logs.items()})
        self.state["predictions"] = self.model.predict(sample, verbose=0).ravel().tolist()
        with open(self.path, "w") as f:
            json.dump(self.state, f)

    def on_batch_end(self, batch, logs=None):
        self.update(logs)


x = np.random.rand(3000, 11).astype("float32")
y = x.sum(1)
sample = x[:200]
model = keras.Sequential([keras.Input((11,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(1)])
model.compile("rmsprop", "mse", metrics=["mae"])
model.predict(sample, verbose=0)
model.fit(x, y, batch_size=50, epochs=1, verbose=0)
board = Dashboard(os.path.join(tempfile.gettempdir(), "progress.json"))
t0 = time.time()
model.fit(x, y, batch_size=50, epochs=2, callbacks=[board], verbose=2)
print("WORK", 2 * len(x))
print("TRAIN_SECONDS %.3f" % (time.time() - t0))
