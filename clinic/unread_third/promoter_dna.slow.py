"""Promoter / non-promoter classification of DNA windows."""
import numpy as np
import tensorflow as tf
from tensorflow.keras.layers import Conv1D, Dense, Dropout, GlobalMaxPooling1D, Input, MaxPooling1D
from tensorflow.keras.models import Sequential

LENGTH = 600
N = 60000
BASES = {"A": 0, "C": 1, "G": 2, "T": 3}


def read_windows():
    rng = np.random.default_rng(7)
    motif = "TATAAA"
    letters = np.frombuffer(b"ACGT", dtype=np.uint8)
    seqs, labels = [], []
    for i in range(N):
        s = letters[rng.integers(0, 4, LENGTH)].tobytes().decode("ascii")
        label = i % 2
        if label:
            pos = int(rng.integers(0, LENGTH - len(motif)))
            s = s[:pos] + motif + s[pos + len(motif):]
        seqs.append(s)
        labels.append(label)
    return seqs, np.array(labels, dtype="float32")


def encode(seqs):
    out = np.zeros((len(seqs), LENGTH, 4), dtype="float32")
    for i in range(len(seqs)):
        for j in range(LENGTH):
            vec = np.zeros(4)
            vec[BASES[seqs[i][j]]] = 1.0
            out[i, j] = vec
    return out


def motif_cnn():
    model = Sequential([
        Input((LENGTH, 4)),
        Conv1D(32, 8, activation="relu"),
        MaxPooling1D(4),
        Conv1D(64, 6, activation="relu"),
        GlobalMaxPooling1D(),
        Dropout(0.3),
        Dense(32, activation="relu"),
        Dense(1, activation="sigmoid"),
    ])
    model.compile(loss="binary_crossentropy", optimizer="adam", metrics=["accuracy"])
    return model


seqs, y = read_windows()
X = encode(seqs)
print("encoded", X.shape)

cut = int(len(X) * 0.8)
train = tf.data.Dataset.from_tensor_slices((X[:cut], y[:cut]))
train = train.shuffle(4096).batch(256).prefetch(tf.data.AUTOTUNE)
test = tf.data.Dataset.from_tensor_slices((X[cut:], y[cut:])).batch(512)

model = motif_cnn()
model.fit(train, epochs=2, verbose=2)
loss, acc = model.evaluate(test, verbose=0)
print(f"test accuracy {acc:.3f}")
