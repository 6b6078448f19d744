import keras
import numpy as np

keras.utils.set_random_seed(0)
keras.backend.set_floatx("float32")
x = np.random.rand(256, 64)
model = keras.Sequential([keras.layers.Dense(1)])
model.compile("sgd", "mse")
history = model.fit(x, x[:, :1], batch_size=64)
