"""Anomaly scores with a large held-out set that is checked after each of many short epochs."""
import time
import numpy as np
import tensorflow as tf

x = np.random.randn(2000, 50).astype("float32")
x_val = np.random.randn(40_000, 50).astype("float32")
truth = lambda a: (np.abs(a).max(1) > 2.8).astype("float32")

model = tf.keras.Sequential([
    tf.keras.layers.Input((50,)),
    tf.keras.layers.Dense(64, activation="relu"),
    tf.keras.layers.Dense(64, activation="relu"),
    tf.keras.layers.Dense(1, activation="sigmoid"),
])
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
y, y_val = truth(x), truth(x_val)
model.fit(x, y, batch_size=100, epochs=1, validation_data=(x_val, y_val), verbose=0)

start = time.perf_counter()
history = model.fit(x, y, batch_size=100, epochs=12,
                    validation_data=(x_val, y_val), validation_freq=1, verbose=2)
print("best", min(history.history["val_loss"]))
print("WORK", 12 * len(x))
print("TRAIN_SECONDS %.3f" % (time.perf_counter() - start))
