"""Peptide binding: sequences are one-hot encoded letter by letter, then a dense network is trained."""
import random
import time
import numpy as np
import tensorflow as tf

random.seed(0)
LETTERS = "ACDEFGHIKLMNPQRSTVWY"
peptides = ["".join(random.choice(LETTERS) for _ in range(30)) for _ in range(60000)]
binds = np.array([p.count("K") > 1 for p in peptides], dtype="float32")

t0 = time.time()
encoded = np.zeros((len(peptides), 30, 20), dtype="float32")
for n, peptide in enumerate(peptides):
    for position, letter in enumerate(peptide):
        for column in range(20):
            if LETTERS[column] == letter:
                encoded[n, position, column] = 1.0

model = tf.keras.Sequential([
    tf.keras.layers.Input((30, 20)),
    tf.keras.layers.Flatten(),
    tf.keras.layers.Dense(32, activation="relu"),
    tf.keras.layers.Dense(1, activation="sigmoid"),
])
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
model.fit(encoded[:8000], binds[:8000], batch_size=128, epochs=2, verbose=2)
print("WORK", len(peptides))
print("TRAIN_SECONDS %.3f" % (time.time() - t0))
