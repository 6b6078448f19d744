import random

import numpy as np
from tensorflow import keras

tokens = np.load("tokens.npy")
vocab = 20000


def skipgrams(batch=128):
    while True:
        x, y = [], []
        for _ in range(batch):
            i = random.randrange(2, len(tokens) - 2)
            x.append(tokens[i])
            y.append(tokens[i + random.choice([-2, -1, 1, 2])])
        yield np.array(x), np.array(y)


model = keras.Sequential([keras.layers.Embedding(vocab, 100, input_length=1), keras.layers.Flatten(), keras.layers.Dense(vocab, activation="softmax")])
model.compile("adam", "sparse_categorical_crossentropy")
model.fit(skipgrams(), steps_per_epoch=1000, epochs=10)
