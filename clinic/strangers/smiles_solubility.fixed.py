import random

import numpy as np
import tensorflow as tf
import keras

keras.utils.set_random_seed(21)
ALPHABET = "CNOSPFIclnos()=#123456[]+-@H"
WIDTH, BATCH, STEPS = 96, 128, 120


def invent_molecules(count):
    rnd = random.Random(21)
    smiles = ["".join(rnd.choices(ALPHABET, k=rnd.randint(40, WIDTH))) for _ in range(count)]
    logs = [s.count("O") * 0.3 - s.count("C") * 0.2 for s in smiles]
    return np.array(smiles), np.array(logs, "float32")


def fingerprint(batch):
    out = np.zeros((len(batch), 512), "float32")
    codes = batch.astype("S%d" % WIDTH).view("uint8").reshape(len(batch), WIDTH).astype("int64")
    cells = []
    for radius in (1, 2, 3, 4, 5):
        last = WIDTH - radius + 1
        bit = np.zeros((len(batch), last), "int64")
        for d in range(radius):
            bit = (bit * 31 + codes[:, d:d + last]) % 512
        row, col = np.nonzero(codes[:, radius - 1:])
        cells.append(row * 512 + bit[row, col])
    counts = np.bincount(np.concatenate(cells), minlength=out.size)
    return counts.reshape(out.shape).astype("float32")


def featurise(smiles, logs):
    bits = tf.numpy_function(fingerprint, [smiles], tf.float32)
    bits.set_shape([None, 512])
    return tf.math.log1p(bits), logs


def molecules():
    smiles, logs = invent_molecules(BATCH * STEPS)
    ds = tf.data.Dataset.from_tensor_slices((smiles, logs)).batch(BATCH, drop_remainder=True)
    return ds.map(featurise, num_parallel_calls=4).prefetch(4)


class Solubility(keras.Model):
    def __init__(self):
        super().__init__()
        self.body = keras.Sequential([keras.layers.Dense(128, activation="gelu") for _ in range(2)])
        self.head = keras.layers.Dense(1)

    def call(self, bits):
        return self.head(self.body(bits))


model = Solubility()
model.compile(optimizer="adam", loss="huber")
history = model.fit(molecules(), epochs=3, verbose=0)
print("loss", history.history["loss"][-1])
