"""Solubility regression over atoms of small molecules; batches come from a keras PyDataset."""
import keras
import numpy as np

MAX_ATOMS, ELEMENTS, BATCH, CUTOFF = 40, 10, 48, 1.8


def make_molecules(n):
    rng = np.random.default_rng(17)
    mols = []
    for _ in range(n):
        k = int(rng.integers(12, MAX_ATOMS))
        mols.append((rng.integers(0, ELEMENTS, k), (rng.normal(size=(k, 3)) * 2).astype("float32")))
    sol = np.array([z.mean() / 5 - len(z) / 40 for z, _ in mols], "float32")
    return mols, sol


class MoleculeBatches(keras.utils.PyDataset):
    """One-hot element, position with thermal motion, and the number of close neighbours per atom."""

    def __init__(self, mols, targets, batch, **kw):
        super().__init__(**kw)
        self.mols, self.targets, self.batch = mols, targets, batch
        self.order = np.arange(len(mols))

    def __len__(self):
        return len(self.mols) // self.batch

    def on_epoch_end(self):
        np.random.shuffle(self.order)

    def neighbours(self, pos):
        points = pos.tolist()
        counts = []
        for i, (x, y, z) in enumerate(points):
            close = 0
            for j, (u, v, w) in enumerate(points):
                if i != j and (x - u) ** 2 + (y - v) ** 2 + (z - w) ** 2 < CUTOFF ** 2:
                    close += 1
            counts.append(close)
        return np.array(counts, "float32")

    def __getitem__(self, i):
        rows = self.order[i * self.batch:(i + 1) * self.batch]
        feats = np.zeros((self.batch, MAX_ATOMS, ELEMENTS + 4), "float32")
        for b, r in enumerate(rows):
            z, pos = self.mols[r]
            pos = pos + np.random.normal(0, 0.05, pos.shape)
            k = len(z)
            feats[b, np.arange(k), z] = 1.0
            feats[b, :k, ELEMENTS:-1] = pos
            feats[b, :k, -1] = self.neighbours(pos) / 8
        return feats, self.targets[rows]


def deepset():
    inp = keras.Input((MAX_ATOMS, ELEMENTS + 4))
    h = keras.layers.Dense(32, activation="silu")(inp)
    h = keras.layers.Dense(32, activation="silu")(h)
    h = keras.layers.GlobalAveragePooling1D()(h)
    return keras.Model(inp, keras.layers.Dense(1)(keras.layers.Dense(32, activation="silu")(h)))


mols, sol = make_molecules(2400)
model = deepset()
model.compile(optimizer=keras.optimizers.Adam(2e-3), loss="mse")
hist = model.fit(MoleculeBatches(mols, sol, BATCH), epochs=7, verbose=2)
assert np.isfinite(hist.history["loss"]).all()
