import keras
import numpy as np

keras.utils.set_random_seed(0)
names = [f"sensor_{i}" for i in range(40)]
table = {name: np.random.rand(4096, 1).astype("float32") for name in names}
y = np.random.rand(4096, 1)
columns = {name: keras.Input((1,), name=name) for name in names}
joined = keras.layers.Concatenate()(list(columns.values()))
model = keras.Model(columns, keras.layers.Dense(1)(joined))
model.compile("sgd", "mse")
history = model.fit(table, y, batch_size=256)
