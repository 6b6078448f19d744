"""Next-note model on folk tunes: a small causal transformer."""
import os
import tempfile
import time

import keras
import numpy as np
from keras import layers, ops

NOTES, LENGTH, DIM = 64, 48, 256


class Block(layers.Layer):
    def __init__(self, dim, heads, **kw):
        super().__init__(**kw)
        self.att = layers.MultiHeadAttention(heads, dim // heads)
        self.n1, self.n2 = layers.LayerNormalization(), layers.LayerNormalization()
        self.up, self.down = layers.Dense(4 * dim, activation="relu"), layers.Dense(dim)

    def call(self, x):
        h = self.n1(x)
        x = x + self.att(h, h, use_causal_mask=True)
        return x + self.down(self.up(self.n2(x)))


class TuneModel(keras.Model):
    def __init__(self, depth=2):
        super().__init__()
        self.note = layers.Embedding(NOTES, DIM)
        self.pos = layers.Embedding(LENGTH, DIM)
        self.blocks = [Block(DIM, 4) for _ in range(depth)]
        self.out = layers.Dense(NOTES)

    def call(self, ids):
        x = self.note(ids) + self.pos(ops.arange(LENGTH))
        for b in self.blocks:
            x = b(x)
        return self.out(x)


def tunes(n):
    rng = np.random.default_rng(18)
    steps = rng.integers(-3, 4, (n, LENGTH + 1))
    seq = np.abs(30 + np.cumsum(steps, 1)) % NOTES
    return seq[:, :-1].astype("int32"), seq[:, 1:].astype("int32")


keras.utils.set_random_seed(18)
x, y = tunes(480)
xv, yv = tunes(40)
model = TuneModel()
model.compile(
    keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(1e-3, 200)),
    keras.losses.SparseCategoricalCrossentropy(from_logits=True),
)
path = os.path.join(tempfile.mkdtemp(), "tune.weights.h5")
cbs = [keras.callbacks.ModelCheckpoint(path, save_best_only=True, save_weights_only=True)]
EPOCHS = 2
t0 = time.time()
model.fit(x, y, batch_size=32, epochs=EPOCHS, validation_data=(xv, yv), callbacks=cbs, verbose=2)
t1 = time.time()
os.remove(path)
print("WORK", EPOCHS * len(x))
print("TRAIN_SECONDS %.2f" % (t1 - t0))
