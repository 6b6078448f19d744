import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(0)
x, y = np.random.rand(256, 4).astype("float32"), np.random.rand(256, 1).astype("float32")
model = keras.Sequential([keras.layers.Dense(1)])
model.compile("sgd", "mse")
seen = np.zeros((0, 4), "float32")
for start in range(0, 256, 16):
    loss = model.train_on_batch(x[start : start + 16], y[start : start + 16])
    seen = np.concatenate([seen, x[start : start + 16]])[-64:]
