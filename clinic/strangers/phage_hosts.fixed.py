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


def profiles(genomes):
    letters = np.frombuffer("".join(genomes).upper().encode(), "uint8").reshape(len(genomes), -1)
    codes = np.searchsorted(np.frombuffer(b"ACGT", "uint8"), letters)
    n = letters.shape[1] - K + 1
    words = sum(codes[:, k:k + n] * 4 ** (K - 1 - k) for k in range(K))
    flat = words + len(WORDS) * np.arange(len(genomes))[:, None]
    counts = np.bincount(flat.ravel(), minlength=len(WORDS) * len(genomes))
    return np.log1p(counts.reshape(len(genomes), -1).astype("float32"))


features = profiles(genomes)
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
