"""Fern species from pressed fronds (herbarium sheets, 64x64 crops)."""
import collections
import time

import keras
import numpy as np
from keras import layers

SPECIES = 8
SIZE = 64
BATCH = 32
TRAIN, HELD = 1440, 192


def press(n, seed):
    """Sheets with one frond each: a stalk and pinnae on both sides of it."""
    rng = np.random.default_rng(seed)
    label = rng.choice(SPECIES, size=n, p=np.array([5, 4, 4, 3, 3, 2, 2, 1]) / 24.0)
    yy, xx = np.meshgrid(np.linspace(-1, 1, SIZE), np.linspace(-1, 1, SIZE), indexing="ij")
    bend = rng.normal(0, 0.15, (n, 1, 1))
    centre = bend * (yy**2 - 0.3)
    along = (yy + 1) / 2
    pinnae = (6 + 2 * (label % 4))[:, None, None]
    width = (0.30 + 0.08 * (label // 4))[:, None, None] * (1.05 - along)
    off = np.abs(xx - centre)
    comb = np.sin(2 * np.pi * pinnae * (along - 0.35 * off)) > 0.1
    frond = ((off < width) & comb) | (off < 0.03)
    paper = 205 + rng.normal(0, 9, (n, SIZE, SIZE))
    shade = np.where(frond, 95 + rng.normal(0, 14, (n, SIZE, SIZE)), paper)
    tint = np.array([0.92, 1.0, 0.80])
    pics = shade[..., None] * tint
    return np.clip(pics, 0, 255).astype("uint8"), label.astype("int32")


def sheets(pics, labels, seed):
    rng = np.random.default_rng(seed)
    while True:
        order = rng.permutation(len(pics))
        for i in range(0, len(order) - BATCH + 1, BATCH):
            pick = order[i:i + BATCH]
            x = pics[pick]
            if rng.random() < 0.5:
                x = x[:, :, ::-1]
            yield x, labels[pick], class_weight[labels[pick]]


class Ticker(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.last = collections.deque(maxlen=15)

    def on_train_batch_end(self, batch, logs=None):
        self.last.append(float(logs["loss"]))
        if (batch + 1) % 15 == 0:
            print(f"    {batch + 1:3d}  {sum(self.last) / len(self.last):.3f}")


def herbarium_net():
    model = keras.Sequential([keras.Input((SIZE, SIZE, 3)), layers.Rescaling(1 / 127.5, offset=-1.0)])
    for filters in (24, 48, 96, 128):
        model.add(layers.Conv2D(filters, 3, padding="same", activation="relu"))
        model.add(layers.MaxPooling2D())
    model.add(layers.GlobalAveragePooling2D())
    model.add(layers.Dense(64, activation="relu"))
    model.add(layers.Dense(SPECIES))
    return model


keras.utils.set_random_seed(31)
pics, labels = press(TRAIN + HELD, 31)
# inverse frequency, damped; in doubles because the counts of the full herbarium are large
freq = np.bincount(labels[:TRAIN], minlength=SPECIES).astype("float64") / TRAIN
class_weight = (1.0 / np.sqrt(freq + 1e-3))
class_weight = (class_weight / class_weight.mean()).astype("float32")

model = herbarium_net()
model.compile(
    optimizer=keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(2e-3, 90)),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    weighted_metrics=["accuracy"],
)

t0 = time.perf_counter()
model.fit(
    sheets(pics[:TRAIN], labels[:TRAIN], 31),
    steps_per_epoch=TRAIN // BATCH,
    epochs=2,
    validation_data=(pics[TRAIN:], labels[TRAIN:]),
    verbose=2,
    callbacks=[Ticker()],
)
print(f"TRAIN_SECONDS {time.perf_counter() - t0:.2f}")
