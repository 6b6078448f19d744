"""CNN on 32x32 images with a callback that keeps weight histograms for a later report."""
import time
import numpy as np
import keras


class WeightReport(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.rows = []

    def on_train_batch_end(self, batch, logs=None):
        row = {"loss": logs["loss"]}
        for w in self.model.weights:
            values = np.asarray(w)
            row[w.path] = np.histogram(values, bins=64)[0]
            row[w.path + "/pct"] = np.percentile(values, [1, 50, 99])
        self.rows.append(row)


x = np.random.rand(1600, 32, 32, 3).astype("float32")
y = np.random.randint(0, 10, (1600,))
model = keras.Sequential([
    keras.Input((32, 32, 3)),
    keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
    keras.layers.Conv2D(32, 3, strides=2, activation="relu"),
    keras.layers.Flatten(),
    keras.layers.Dense(128, activation="relu"),
    keras.layers.Dense(10, activation="softmax"),
])
model.compile("adam", "sparse_categorical_crossentropy")
report = WeightReport()
model.fit(x, y, batch_size=32, epochs=1, verbose=0)
start = time.time()
model.fit(x, y, batch_size=32, epochs=8, callbacks=[report], verbose=2)
took = time.time() - start
print("rows kept:", len(report.rows))
print("WORK", 8 * len(x))
print("TRAIN_SECONDS %.3f" % took)
