# Promoter / non-promoter classification from raw DNA
import numpy as np
import tensorflow as tf

SEQ_LEN = 600
N_SEQ = 60000
BASES = "ACGT"
rng = np.random.default_rng(17)


def random_fasta(n, length):
    seqs, labels = [], []
    codes = rng.integers(0, 4, (n, length))
    letters = np.frombuffer(BASES.encode("ascii"), dtype=np.uint8)
    motif = "TATAAA"
    for k in range(n):
        s = letters[codes[k]].tobytes().decode("ascii")
        lab = int(k % 2 == 0)
        if lab:
            p = 500 + k % 60
            s = s[:p] + motif + s[p + len(motif):]
        seqs.append(s)
        labels.append(lab)
    return seqs, np.array(labels, dtype=np.float32)


def one_hot_dna(seqs):
    table = {b: j for j, b in enumerate(BASES)}
    X = np.zeros((len(seqs), SEQ_LEN, 4), dtype=np.float32)
    for i in range(len(seqs)):
        for j in range(SEQ_LEN):
            X[i, j, table[seqs[i][j]]] = 1.0
    return X


def deep_bind():
    model = tf.keras.models.Sequential()
    model.add(tf.keras.layers.Input(shape=(SEQ_LEN, 4)))
    model.add(tf.keras.layers.Conv1D(64, 12, activation="relu"))
    model.add(tf.keras.layers.MaxPooling1D(6))
    model.add(tf.keras.layers.Conv1D(64, 8, activation="relu"))
    model.add(tf.keras.layers.GlobalMaxPooling1D())
    model.add(tf.keras.layers.Dense(32, activation="relu"))
    model.add(tf.keras.layers.Dropout(0.5))
    model.add(tf.keras.layers.Dense(1, activation="sigmoid"))
    return model


if __name__ == "__main__":
    seqs, y = random_fasta(N_SEQ, SEQ_LEN)
    X = one_hot_dna(seqs)
    print("encoded", X.shape, X.dtype)

    perm = rng.permutation(N_SEQ)
    X, y = X[perm], y[perm]
    cut = int(N_SEQ * 0.85)

    model = deep_bind()
    model.compile(loss="binary_crossentropy", optimizer="adam", metrics=["accuracy"])
    model.fit(X[:cut], y[:cut], batch_size=512, epochs=3, verbose=2,
              validation_data=(X[cut:], y[cut:]))
    loss, acc = model.evaluate(X[cut:], y[cut:], batch_size=512, verbose=0)
    print("test accuracy", acc)
