# Atomisation energies from geometries, group meeting version
# npz made by xyz2npz.py:  Z (130000, 23) int, padded with 0 ; R (130000, 23, 3) float ; E (130000,)

import numpy as np
import tensorflow as tf
from tensorflow import keras

np.random.seed(11)
tf.random.set_seed(11)

HARTREE2KCAL = 627.5095
NMAX = 23


def coulomb_matrices(Z, R):
    n = len(Z)
    M = np.zeros((n, NMAX, NMAX), dtype=np.float32)
    for m in range(n):
        for i in range(NMAX):
            if Z[m, i] == 0:
                continue
            for j in range(NMAX):
                if Z[m, j] == 0:
                    continue
                if i == j:
                    M[m, i, j] = 0.5 * Z[m, i] ** 2.4
                else:
                    d = np.sqrt(np.sum((R[m, i] - R[m, j]) ** 2))
                    M[m, i, j] = Z[m, i] * Z[m, j] / d
    return M


def sort_rows(M):
    norms = np.linalg.norm(M, axis=2)
    order = np.argsort(-norms, axis=1)
    M = np.take_along_axis(M, order[:, :, None], axis=1)
    return np.take_along_axis(M, order[:, None, :], axis=2)


class KcalMAE(keras.callbacks.Callback):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def on_epoch_end(self, epoch, logs=None):
        if epoch % 5 == 0:
            print(f"epoch {epoch:3d}  val MAE {logs['val_mae'] * self.scale:.2f} kcal/mol")


data = np.load("qm9_small.npz")
Z = data["Z"].astype("float32")
R = data["R"].astype("float32")
E = data["E"].astype("float32")
keep = np.random.permutation(len(Z))[:60000]
Z, R, E = Z[keep], R[keep], E[keep] * HARTREE2KCAL

M = sort_rows(coulomb_matrices(Z, R))
iu = np.triu_indices(NMAX)
X = M[:, iu[0], iu[1]]
print("features", X.shape)

n_tr = 50000
mu, sd = X[:n_tr].mean(0), X[:n_tr].std(0) + 1e-3
X = (X - mu) / sd
e_mu, e_sd = E[:n_tr].mean(), E[:n_tr].std()
y = (E - e_mu) / e_sd

inp = keras.Input((X.shape[1],))
h = inp
for width in (512, 512, 256):
    h = keras.layers.Dense(width, activation="swish")(h)
    h = keras.layers.LayerNormalization()(h)
net = keras.Model(inp, keras.layers.Dense(1)(h))

steps = n_tr // 512
sched = keras.optimizers.schedules.CosineDecay(1e-3, decay_steps=40 * steps)
net.compile(keras.optimizers.Adam(sched), loss="huber", metrics=["mae"])

net.fit(X[:n_tr], y[:n_tr], batch_size=512, epochs=40,
        validation_data=(X[n_tr:], y[n_tr:]), verbose=0,
        callbacks=[KcalMAE(e_sd)])

p = net.predict(X[n_tr:], batch_size=2048, verbose=0)[:, 0]
err = np.abs(p - y[n_tr:]) * e_sd
print("MAE  %.2f kcal/mol" % err.mean())
print("95th %.2f kcal/mol" % np.percentile(err, 95))
net.save("cm_mlp.keras")
