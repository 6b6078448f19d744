"""Convolutional digit classifier."""
import time
import numpy as np
import keras

x = np.random.rand(4000, 28, 28, 1).astype("float32")
y = np.random.randint(0, 10, 4000)

model = keras.Sequential([
    keras.Input((28, 28, 1)),
    keras.layers.Conv2D(16, 3, activation="relu"),
    keras.layers.MaxPooling2D(),
    keras.layers.Conv2D(32, 3, activation="relu"),
    keras.layers.MaxPooling2D(),
    keras.layers.Flatten(),
    keras.layers.Dense(10, activation="softmax"),
])
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(x, y, batch_size=64, epochs=1, verbose=2)
t0 = time.time()
model.fit(x, y, batch_size=64, epochs=13, initial_epoch=1, verbose=2)
print("WORK", 12 * len(x))
print("TRAIN_SECONDS %.3f" % (time.time() - t0))
