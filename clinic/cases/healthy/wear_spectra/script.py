"""Machine wear from vibration spectra with an LSTM."""
import time
import numpy as np
import tensorflow as tf

runs = np.random.randn(960, 40, 128).astype("float32")
wear = runs.std((1, 2))
ds = tf.data.Dataset.from_tensor_slices((runs, wear))
ds = ds.map(lambda r, w: (tf.abs(tf.signal.rfft(r)), w))
ds = ds.cache().shuffle(960).batch(32, drop_remainder=True)

model = tf.keras.Sequential([
    tf.keras.layers.Input((40, 65)),
    tf.keras.layers.LSTM(96, return_sequences=True),
    tf.keras.layers.LSTM(96),
    tf.keras.layers.Dense(1),
])
model.compile("adam", "mse")
model.fit(ds, epochs=1, verbose=2)
t0 = time.time()
model.fit(ds, epochs=6, initial_epoch=1, verbose=2)
print("WORK", 5 * 960)
print("TRAIN_SECONDS %.3f" % (time.time() - t0))
