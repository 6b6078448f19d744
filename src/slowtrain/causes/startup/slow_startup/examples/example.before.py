import keras
import numpy as np

keras.utils.set_random_seed(0)
x, y = np.random.rand(64, 200, 8), np.random.rand(64, 1)
model = keras.Sequential([keras.Input((200, 8)), keras.layers.LSTM(16, unroll=True), keras.layers.Dense(1)])
model.compile("sgd", "mse")
history = model.fit(x, y)
