"""Gesture recognition from motion traces; a quick first experiment of one epoch."""
import time
import numpy as np
import keras

x = np.random.randn(800, 120, 6).astype("float32")
y = np.random.randint(0, 5, 800)

start = time.time()
model = keras.Sequential([
    keras.Input((120, 6)),
    keras.layers.LSTM(24, unroll=True),
    keras.layers.Dense(5, activation="softmax"),
])
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"], jit_compile=False)
model.fit(x, y, batch_size=10, epochs=1, verbose=2)
print("WORK", len(x))
print("TRAIN_SECONDS %.3f" % (time.time() - start))
