# course homework 4: predict the rating of a wine from tasting-note scores
import random
import time

import keras
import numpy as np

random.seed(0)
keras.utils.set_random_seed(0)

n_wines, n_notes = 4000, 600


class Cellar:
    def __init__(self, n):
        rng = np.random.default_rng(0)
        notes = rng.random((n, n_notes)).round(3)
        w = rng.normal(size=n_notes) / n_notes ** 0.5
        self.notes = notes.tolist()
        self.ratings = (notes @ w).tolist()

    def __len__(self):
        return len(self.notes)

    def draw(self, ids):
        x = [self.notes[i] for i in ids]
        y = [[self.ratings[i]] for i in ids]
        return x, y


def make_model():
    model = keras.Sequential([
        keras.layers.Input((n_notes,)),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dense(1),
    ])
    model.compile(optimizer="adam", loss="mse")
    return model


def train(model, cellar, epochs, batch_size):
    ids = list(range(len(cellar)))
    seen = 0
    for epoch in range(epochs):
        random.shuffle(ids)
        losses = []
        for k in range(0, len(ids), batch_size):
            x, y = cellar.draw(ids[k:k + batch_size])
            losses.append(model.train_on_batch(np.array(x), np.array(y)))
            seen += len(x)
        print(f"epoch {epoch + 1}: mse {np.mean(losses):.4f}")
    return seen


cellar = Cellar(n_wines)
model = make_model()
t0 = time.time()
done = train(model, cellar, epochs=26, batch_size=100)
t1 = time.time()
print("WORK", done)
print("TRAIN_SECONDS", round(t1 - t0, 2))
