"""Which bacterium does a phage infect? A dense net on the 4-mer profile of its genome pieces."""
import itertools
import time
import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(2)
rng = np.random.default_rng(2)

HOSTS, PIECES, LENGTH, K = 12, 9000, 1800, 4
start = time.time()

# pieces of genomes, each host with its own taste for letters
taste = rng.dirichlet(np.ones(4) * 6, HOSTS)
host = rng.integers(0, HOSTS, PIECES)
cut = taste[host].cumsum(1)
draws = rng.random((PIECES, LENGTH))
codes = (draws[:, :, None] > cut[:, None, :3]).sum(-1)
genomes = [row.tobytes().decode() for row in np.frombuffer(b"ACGT", "uint8")[codes]]


WORDS = {"".join(w): i for i, w in enumerate(itertools.product("ACGT", repeat=K))}


def profile(genome):
    counts = np.zeros(len(WORDS), "float32")
    for i in range(len(genome) - K + 1):
        word = genome[i:i + K].upper()
        if word in WORDS:
            counts[WORDS[word]] += 1.0
    for j in range(len(counts)):
        counts[j] = np.log1p(counts[j])
    return counts


features = np.stack([profile(g) for g in genomes])
print(f"profiles ready after {time.time() - start:.1f} s", features.shape)

model = keras.Sequential([
    keras.Input((len(WORDS),)),
    layers.Dense(128, activation="relu"),
    layers.Dropout(0.2),
    layers.Dense(HOSTS, activation="softmax"),
])
model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(features, host, batch_size=64, epochs=6, verbose=2)
print(f"all done after {time.time() - start:.1f} s")
