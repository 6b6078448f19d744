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
    for i, text in enumerate(batch):
        text = text.decode()
        for radius in (1, 2, 3, 4, 5):
            for start in range(len(text) - radius + 1):
                bit = 0
                for ch in text[start:start + radius]:
                    bit = (bit * 31 + ord(ch)) % 512
                out[i, bit] += 1.0
    return out


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
