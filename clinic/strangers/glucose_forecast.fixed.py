"""GRU forecast of blood glucose, ported from our PyTorch code (Dataset / DataLoader kept as they were)."""
import numpy as np
import tensorflow as tf
import keras
from keras import layers

HISTORY, HORIZON = 48, 6


class CGMDataset:
    """One item: standardised history of a patient, meals as event flags, and the next half hour."""

    def __init__(self, patients=30, length=2000, seed=11):
        rng = np.random.default_rng(seed)
        self.records = []
        for _ in range(patients):
            meals = rng.random(length) < 0.02
            level = 110 + np.cumsum(rng.normal(0, 2, length)) * 0.5
            level = level + 40 * np.convolve(meals, np.exp(-np.arange(30) / 10.0))[:length]
            self.records.append((level.astype("float32"), meals))
        self.level = np.stack([r[0] for r in self.records])
        self.meals = np.stack([r[1] for r in self.records])
        self.index = np.array([(p, t) for p in range(patients) for t in range(length - HISTORY - HORIZON)])

    def __len__(self):
        return len(self.index)

    def batch(self, idx):
        p, t = self.index[idx].T
        at = t[:, None] + np.arange(HISTORY + HORIZON)
        level = self.level[p[:, None], at]
        past, meals = level[:, :HISTORY], self.meals[p[:, None], at[:, :HISTORY]]
        mu, sd = past.mean(1, keepdims=True), past.std(1, keepdims=True) + 1e-3
        pos = np.arange(HISTORY)
        last = np.maximum.accumulate(np.where(meals, pos, -HISTORY - 1), axis=1)
        x = np.stack([(past - mu) / sd, meals, (pos - last) / HISTORY], axis=-1).astype("float32")
        return x, ((level[:, HISTORY:] - mu) / sd).astype("float32")


class DataLoader:
    def __init__(self, dataset, batch_size, shuffle=True, seed=0):
        self.dataset, self.batch_size, self.shuffle = dataset, batch_size, shuffle
        self.rng = np.random.default_rng(seed)

    def __iter__(self):
        order = np.arange(len(self.dataset))
        if self.shuffle:
            self.rng.shuffle(order)
        for start in range(0, len(order) - self.batch_size + 1, self.batch_size):
            yield self.dataset.batch(order[start: start + self.batch_size])


model = keras.Sequential([
    layers.Input((HISTORY, 3)),
    layers.Conv1D(32, 4, strides=4, activation="relu"),
    layers.GRU(32, unroll=True),
    layers.Dense(HORIZON),
])
optimizer = keras.optimizers.Adam(1e-3)
huber = keras.losses.Huber()


@tf.function(reduce_retracing=True)
def step(x, y):
    with tf.GradientTape() as tape:
        loss = huber(y, model(x, training=True))
    optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
    return loss


loader = DataLoader(CGMDataset(), batch_size=128)
running = 0.0
for i, (x, y) in enumerate(loader):
    running += step(x, y)
    if (i + 1) % 100 == 0:
        print(f"[{i + 1:4d}] huber {float(running) / 100:.4f}")
        running = 0.0
