import keras
import numpy as np

keras.utils.set_random_seed(0)
ids, y = np.random.randint(300_000, size=(64, 8)), np.random.rand(64, 1)
model = keras.Sequential([
    keras.layers.Embedding(300_000, 32),
    keras.layers.Flatten(),
    keras.layers.Dense(1),
])
model.compile("adam", "mse")
history = model.fit(ids, y, batch_size=32)
