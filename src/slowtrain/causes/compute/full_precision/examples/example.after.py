import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(0)
x, y = np.random.rand(256, 32), np.random.rand(256, 1)
keras.mixed_precision.set_global_policy("mixed_bfloat16")
model = keras.Sequential([layers.Dense(64), layers.Dense(1, dtype="float32")])
model.build((None, 32))
model.compile("sgd", "mse")
history = model.fit(x, y, batch_size=64)
