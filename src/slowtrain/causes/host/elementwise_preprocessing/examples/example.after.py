import keras
import numpy as np

keras.utils.set_random_seed(0)
x = np.random.rand(1000, 300)
x[...] = np.sqrt(x)
model = keras.Sequential([keras.layers.Dense(1)])
model.compile("sgd", "mse")
history = model.fit(x, x[:, :1], batch_size=100)
