"""Value network for chess positions stored as 64-character boards."""
import random
import time

import keras
import numpy as np
import tensorflow as tf

PIECES = "PNBRQKpnbrqk"
WORTH = dict(zip(PIECES, (1, 3, 3, 5, 9, 0, -1, -3, -3, -5, -9, 0)))


class PositionStore:
    def __init__(self, count, seed=5):
        rnd = random.Random(seed)
        self.boards, self.values = [], []
        for _ in range(count):
            b = ["."] * 64
            for sq in rnd.sample(range(64), 18):
                b[sq] = rnd.choice(PIECES)
            self.boards.append("".join(b))
            self.values.append(np.tanh(sum(WORTH.get(c, 0) for c in b) / 10.0))

    def __len__(self):
        return len(self.boards)

    def planes(self, k):
        out = np.zeros((8, 8, 12), np.float32)
        for sq, piece in enumerate(self.boards[k]):
            if piece != ".":
                out[sq // 8, sq % 8, PIECES.index(piece)] = 1.0
        return out

    def examples(self):
        for k in range(len(self)):
            yield self.planes(k), np.float32(self.values[k])

    def dataset(self, batch):
        ds = tf.data.Dataset.from_generator(
            self.examples,
            output_signature=(tf.TensorSpec((8, 8, 12), tf.float32), tf.TensorSpec((), tf.float32)))
        return ds.shuffle(1024).batch(batch).prefetch(tf.data.AUTOTUNE)


class ResBlock(keras.layers.Layer):
    def __init__(self, width):
        super().__init__()
        self.a = keras.layers.Conv2D(width, 3, padding="same", activation="relu")
        self.b = keras.layers.Conv2D(width, 3, padding="same")

    def call(self, x):
        return keras.ops.relu(x + self.b(self.a(x)))


class ValueNet(keras.Model):
    def __init__(self):
        super().__init__()
        self.stem = keras.layers.Conv2D(16, 3, padding="same", activation="relu")
        self.block = ResBlock(16)
        self.flat = keras.layers.Flatten()
        self.out = keras.layers.Dense(1, activation="tanh")

    def call(self, x):
        return self.out(self.flat(self.block(self.stem(x))))


store = PositionStore(9000)
net = ValueNet()
net.compile(optimizer=keras.optimizers.Adam(1e-3), loss="mse", metrics=["mae"])
t0 = time.time()
net.fit(store.dataset(128), epochs=2, verbose=2)
t1 = time.time()
print("start position-like value", float(net(store.planes(0)[None])[0, 0]))
print("WORK", len(store) * 2)
print("TRAIN_SECONDS %.3f" % (t1 - t0))
