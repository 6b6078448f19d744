import keras
import numpy as np

keras.utils.set_random_seed(0)
x, y = np.random.rand(64, 10, 4), np.random.rand(64, 1)
model = keras.Sequential([keras.layers.GRU(8, reset_after=True), keras.layers.Dense(1)])
model.compile("sgd", "mse")
history = model.fit(x, y, batch_size=32)
