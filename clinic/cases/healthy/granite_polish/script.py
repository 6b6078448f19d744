"""Three polishers compared, each on the same measured slabs."""
import functools
import math

import numpy as np
import keras


class Slabs(keras.utils.PyDataset):
    def __init__(self, surface, gloss, size, **kwargs):
        super().__init__(**kwargs)
        self.surface, self.gloss, self.size = surface, gloss, size

    def __len__(self):
        return math.ceil(len(self.surface) / self.size)

    def __getitem__(self, index):
        part = slice(index * self.size, (index + 1) * self.size)
        return self.surface[part], self.gloss[part]


def quarry(count):
    rng = np.random.default_rng(50)
    surface = rng.normal(size=(count, 384)).astype("float32")
    return surface, np.tanh(surface[:, :12].mean(axis=1, keepdims=True))


def polisher(width, activation):
    net = keras.Sequential([keras.Input((384,)), keras.layers.Dense(width, activation),
                            keras.layers.Dense(width, activation), keras.layers.Dense(1)])
    net.compile(keras.optimizers.SGD(0.01, momentum=0.9), "mse")
    return net


recipes = {"felt": functools.partial(polisher, 1280, "relu"),
           "diamond": functools.partial(polisher, 1152, "tanh")}

keras.utils.set_random_seed(50)
slabs = Slabs(*quarry(6144), size=256, workers=1)
for name, recipe in recipes.items():
    log = recipe().fit(slabs, epochs=4, verbose=0)
    print(name, round(log.history["loss"][-1], 4))
