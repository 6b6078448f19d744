"""Forecast on windows that a generator slices from a long series."""
import time
import numpy as np
import tensorflow as tf

series = np.cumsum(np.random.randn(60_000)).astype("float32")
series /= series.std()
BATCH, WINDOW, AHEAD = 128, 512, 16
view = np.lib.stride_tricks.sliding_window_view(series, WINDOW + AHEAD)


def batches():
    rng = np.random.default_rng(0)
    while True:
        part = view[rng.integers(0, len(view), BATCH)]
        yield part[:, :WINDOW, None], part[:, WINDOW:]


ds = tf.data.Dataset.from_generator(batches, output_signature=(
    tf.TensorSpec((BATCH, WINDOW, 1)), tf.TensorSpec((BATCH, AHEAD))))
ds = ds.prefetch(4)
model = tf.keras.Sequential([
    tf.keras.layers.Input((WINDOW, 1)),
    tf.keras.layers.Conv1D(32, 8, strides=2, activation="relu"),
    tf.keras.layers.Conv1D(32, 8, strides=2, activation="relu"),
    tf.keras.layers.GlobalAveragePooling1D(),
    tf.keras.layers.Dense(AHEAD),
])
model.compile("adam", "mse")
model.fit(ds, steps_per_epoch=100, epochs=1, verbose=2)
start = time.perf_counter()
model.fit(ds, steps_per_epoch=100, epochs=6, initial_epoch=1, verbose=2)
print("WORK", 5 * 100 * BATCH)
print("TRAIN_SECONDS %.3f" % (time.perf_counter() - start))
