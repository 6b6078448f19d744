"""Multi-task model of whisky casks (age and wood), sample weights, GRU + dense, PyDataset of whole batches."""
import math
import time

import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(47)


class Casks(keras.utils.PyDataset):
    def __init__(self, x, age, wood, weight, size):
        super().__init__(workers=1)
        self.parts, self.size = (x, age, wood, weight), size
        self.order = np.random.default_rng(0).permutation(len(x))

    def __len__(self):
        return math.ceil(len(self.order) / self.size)

    def __getitem__(self, k):
        i = self.order[k * self.size:(k + 1) * self.size]
        x, age, wood, weight = (p[i] for p in self.parts)
        return x, {"age": age, "wood": wood}, {"age": weight, "wood": weight}

    def on_epoch_end(self):
        np.random.default_rng(len(self)).shuffle(self.order)


rng = np.random.default_rng(47)
n = 3200
x = rng.normal(size=(n, 60, 8)).astype("float32").cumsum(1) / 5
age, wood = x[:, -1, 0] - x[:, 30, 1], (x[:, :, 2].mean(1) > 0).astype("float32")
weight = np.where(wood > 0, 1.0, 1.4).astype("float32")

i = keras.Input((60, 8))
h = layers.Bidirectional(layers.GRU(64, return_sequences=True))(i)
h = layers.GRU(64)(h)
h = layers.Dense(64, activation="relu")(h)
model = keras.Model(i, {"age": layers.Dense(1, name="age")(h), "wood": layers.Dense(1, activation="sigmoid", name="wood")(h)})
model.compile("adam", {"age": "mse", "wood": "binary_crossentropy"}, loss_weights={"age": 1.0, "wood": 0.5})
t0 = time.time()
model.fit(Casks(x, age[:, None], wood[:, None], weight, 128), epochs=3, verbose=2,
          callbacks=[keras.callbacks.CSVLogger("/dev/null"), keras.callbacks.ReduceLROnPlateau(monitor="loss", patience=1)])
print("WORK", 3 * n)
print("TRAIN_SECONDS %.3f" % (time.time() - t0))
