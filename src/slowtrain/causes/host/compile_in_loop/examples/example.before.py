import keras
import numpy as np

keras.utils.set_random_seed(0)
x, y = np.random.rand(64, 4).astype("float32"), np.random.rand(64, 1).astype("float32")
model = keras.Sequential([keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.1), "mse")
for epoch in range(5):
    model.compile(keras.optimizers.SGD(0.1 / (epoch + 1)), "mse")
    history = model.fit(x, y, verbose=0)
