"""Promoter or not, from canonical 5-mer profiles of short DNA reads."""
import itertools

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(43)
rng = np.random.default_rng(43)

K, READS, LENGTH = 5, 2500, 400
PAIR = {"A": "T", "C": "G", "G": "C", "T": "A"}


def sequence(promoter):
    p = [0.2, 0.3, 0.3, 0.2] if promoter else [0.27, 0.23, 0.23, 0.27]
    return "".join(rng.choice(list("ACGT"), LENGTH, p=p))


def canonical(kmer):
    other = "".join(PAIR[c] for c in reversed(kmer))
    return min(kmer, other)


names = sorted({canonical("".join(k)) for k in itertools.product("ACGT", repeat=K)})
column = {k: i for i, k in enumerate(names)}


def profile(seq):
    counts = np.zeros(len(names), np.float32)
    for i in range(len(seq) - K + 1):
        counts[column[canonical(seq[i:i + K])]] += 1
    return counts / counts.sum()


labels = rng.integers(0, 2, READS)
reads = [sequence(l) for l in labels]
table = np.stack([profile(r) for r in reads])
table = (table - table.mean(0)) / (table.std(0) + 1e-6)

model = tf.keras.Sequential([
    tf.keras.layers.Input((len(names),)),
    tf.keras.layers.Dense(64, activation="relu"),
    tf.keras.layers.Dropout(0.3),
    tf.keras.layers.Dense(1),
])
model.compile(
    optimizer="adam",
    loss=tf.keras.losses.BinaryCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
cut = int(READS * 0.8)
model.fit(
    table[:cut], labels[:cut].astype("float32"),
    validation_data=(table[cut:], labels[cut:].astype("float32")),
    batch_size=64, epochs=8, verbose=2,
)
