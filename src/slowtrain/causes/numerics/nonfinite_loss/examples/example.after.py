import keras
import numpy as np

keras.utils.set_random_seed(0)
x, y = np.random.rand(256, 4), np.random.randint(2, size=(256, 1))
model = keras.Sequential([keras.layers.Dense(1)])
model.compile("sgd", keras.losses.BinaryCrossentropy(from_logits=True))
history = model.fit(x, y)
