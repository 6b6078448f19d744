"""Click-through model on a few numeric features."""
import time
import numpy as np
import keras

n = 64_000
x = np.random.rand(n, 12).astype("float32")
clicked = (np.random.rand(n) < x[:, 0]).astype("float32")

model = keras.Sequential([
    keras.Input((12,)),
    keras.layers.Dense(16, activation="relu"),
    keras.layers.Dense(16, activation="relu"),
    keras.layers.Dense(1, activation="sigmoid"),
])
model.compile(optimizer=keras.optimizers.SGD(0.05), loss="binary_crossentropy")

model.fit(x, clicked, batch_size=32, epochs=1, verbose=2)
start = time.perf_counter()
model.fit(x, clicked, batch_size=32, epochs=6, initial_epoch=1, verbose=2)
print("WORK", 5 * n)
print("TRAIN_SECONDS %.3f" % (time.perf_counter() - start))
