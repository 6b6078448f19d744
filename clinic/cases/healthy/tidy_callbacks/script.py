"""Vowel recognition with early stopping and checkpoints."""
import os
import tempfile
import time
import numpy as np
import keras

x = np.random.rand(8000, 400).astype("float32")
y = np.random.randint(0, 9, 8000)
model = keras.Sequential([
    keras.Input((400,)),
    keras.layers.Dense(512, activation="relu"),
    keras.layers.Dense(512, activation="relu"),
    keras.layers.Dense(9, activation="softmax"),
])
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
where = os.path.join(tempfile.gettempdir(), "vowels.weights.h5")
callbacks = [
    keras.callbacks.EarlyStopping("loss", patience=20),
    keras.callbacks.ModelCheckpoint(where, save_weights_only=True, monitor="loss", save_best_only=True),
    keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: print(epoch, round(logs["loss"], 4))),
]
model.fit(x, y, batch_size=100, epochs=1, verbose=0)
t0 = time.time()
model.fit(x, y, batch_size=100, epochs=6, verbose=0, callbacks=callbacks,
          validation_data=(x[:800], y[:800]), validation_freq=3)
print("WORK", 6 * len(x))
print("TRAIN_SECONDS %.3f" % (time.time() - t0))
