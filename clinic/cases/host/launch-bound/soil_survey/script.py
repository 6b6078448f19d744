"""Soil samples: validation and a checkpoint after each epoch, as usual."""
import os
import tempfile
import time
import numpy as np
import keras

x = np.random.rand(24_000, 60).astype("float32")
y = (x[:, :6].sum(1) > 3).astype("float32")
model = keras.Sequential([
    keras.Input((60,)),
    keras.layers.Dense(256, activation="relu"),
    keras.layers.Dense(256, activation="relu"),
    keras.layers.Dense(1, activation="sigmoid"),
])
model.compile("adam", "binary_crossentropy")
folder = tempfile.mkdtemp()
keep = keras.callbacks.ModelCheckpoint(os.path.join(folder, "best.weights.h5"), save_weights_only=True)
tic = time.time()
model.fit(x[:20_000], y[:20_000], validation_data=(x[20_000:], y[20_000:]), batch_size=100, epochs=12,
          callbacks=[keep], verbose=2)
print("WORK", 12 * 20_000)
print("TRAIN_SECONDS %.3f" % (time.time() - tic))
