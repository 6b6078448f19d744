import numpy as np
from tensorflow import keras

stream = np.load("stream.npy")
model = keras.Sequential([keras.layers.Dense(32, activation="relu", input_shape=(8,)), keras.layers.Dense(1)])
model.compile("adam", "mse")
errors = []
for row in stream:
    x, y = row[None, :8], row[None, 8:]
    errors.append(abs(model.predict(x, verbose=0) - y).item())
    model.fit(x, y, epochs=1, verbose=0)
print(np.mean(errors))
