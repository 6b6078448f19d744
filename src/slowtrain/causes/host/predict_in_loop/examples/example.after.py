import keras
import numpy as np

keras.utils.set_random_seed(0)
x = np.random.rand(20, 4)
model = keras.Sequential([keras.layers.Dense(1)])
model.compile("sgd", "mse")
history = model.fit(x, x[:, :1])
scores = [model.predict_on_batch(x[i : i + 1]) for i in range(len(x))]
