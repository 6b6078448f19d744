"""Promoter recognition: counts of 4-mers in DNA fragments feed a shallow classifier."""
import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import numpy as np
import tensorflow as tf
from tensorflow import keras

LENGTH, BATCH, K = 250, 64, 4
INDEX = {b: i for i, b in enumerate("ACGT")}


def fragments(n=25600):
    rng = np.random.default_rng(2)
    bases = rng.choice(list(b"ACGT"), size=(n, LENGTH)).astype(np.uint8)
    label = rng.integers(0, 2, n)
    motif = np.frombuffer(b"TATAAAGGCGTATAAA", np.uint8)
    for i in np.flatnonzero(label):
        at = rng.integers(0, LENGTH - len(motif))
        bases[i, at:at + len(motif)] = motif
    return np.array([row.tobytes() for row in bases]), label.astype("float32")


def kmer_counts(batch):
    out = np.zeros((len(batch), 4 ** K), np.float32)
    for r, seq in enumerate(batch):
        s = seq.decode()
        for i in range(len(s) - K + 1):
            code = 0
            for ch in s[i:i + K]:
                code = code * 4 + INDEX[ch]
            out[r, code] += 1.0
    return out


def featurise(seq, y):
    x = tf.numpy_function(kmer_counts, [seq], tf.float32)
    x.set_shape([BATCH, 4 ** K])
    return x, y


seqs, labels = fragments()
train = (tf.data.Dataset.from_tensor_slices((seqs, labels))
         .shuffle(len(seqs), seed=0)
         .batch(BATCH, drop_remainder=True)
         .map(featurise, num_parallel_calls=tf.data.AUTOTUNE)
         .prefetch(tf.data.AUTOTUNE))

inp = keras.Input((4 ** K,))
h = keras.layers.Dense(64, activation="relu")(inp)
h = keras.layers.Dropout(0.2)(h)
out = keras.layers.Dense(1, activation="sigmoid")(h)
clf = keras.Model(inp, out)
clf.compile("adam", "binary_crossentropy", metrics=["AUC"])
clf.fit(train, epochs=1, verbose=2)
