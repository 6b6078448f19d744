"""Document tagger; the server reboots now and then, so the model is saved while it trains."""
import os
import tempfile
import time
import numpy as np
import tensorflow as tf

docs = np.random.rand(3200, 1500).astype("float32")
tags = np.random.randint(0, 30, 3200)

model = tf.keras.Sequential([
    tf.keras.layers.Input((1500,)),
    tf.keras.layers.Dense(600, activation="relu"),
    tf.keras.layers.Dense(30, activation="softmax"),
])
model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])

backup = tf.keras.callbacks.ModelCheckpoint(
    os.path.join(tempfile.gettempdir(), "tagger_backup.keras"),
    save_freq=2,
)
model.fit(docs, tags, batch_size=64, epochs=1, verbose=2)
t0 = time.perf_counter()
model.fit(docs, tags, batch_size=64, epochs=6, initial_epoch=1, callbacks=[backup], verbose=2)
print("WORK", 5 * len(docs))
print("TRAIN_SECONDS %.3f" % (time.perf_counter() - t0))
