import gc

import keras
import numpy as np

keras.utils.set_random_seed(0)
x, y = np.random.rand(32, 4), np.random.rand(32, 1)
model = keras.Sequential([keras.layers.Dense(1)])
model.compile("sgd", "mse")
for step in range(100):
    loss = model.train_on_batch(x, y)
    gc.collect()
