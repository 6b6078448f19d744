"""Podcast recommendations from listening logs (matrix factorisation). Ids are those of the app's database."""
import time
import numpy as np
import tensorflow as tf
import keras
from keras import layers

keras.utils.set_random_seed(70)
rng = np.random.default_rng(70)


def listening_log(n=32000, listeners=3000, shows=800):
    accounts = np.sort(rng.choice(420_000, listeners, replace=False))
    programmes = np.sort(rng.choice(30_000, shows, replace=False))
    u, s = rng.integers(0, listeners, n), rng.integers(0, shows, n)
    a, b = rng.normal(size=(listeners, 4)), rng.normal(size=(shows, 4))
    minutes = (a[u] * b[s]).sum(1) + 0.2 * rng.normal(size=n)
    return accounts[u].astype("int32"), programmes[s].astype("int32"), minutes.astype("float32")


account, programme, minutes = listening_log()

n_accounts = int(account.max()) + 1
n_programmes = int(programme.max()) + 1


def factoriser(width=16):
    a = keras.Input((), dtype="int32", name="account")
    p = keras.Input((), dtype="int32", name="programme")
    va = layers.Embedding(n_accounts, width)(a)
    vp = layers.Embedding(n_programmes, width)(p)
    bias = layers.Dense(1)(layers.Concatenate()([va, vp]))
    return keras.Model([a, p], layers.Add()([layers.Dot(-1)([va, vp]), bias]))


model = factoriser()
model.compile(optimizer=keras.optimizers.Adam(5e-3), loss="mse")
ds = tf.data.Dataset.from_tensor_slices(((account, programme), minutes))
ds = ds.shuffle(len(minutes), seed=2).batch(256).prefetch(tf.data.AUTOTUNE)
t0 = time.time()
model.fit(ds, epochs=3, verbose=2)
print(f"training: {time.time() - t0:.1f} s")
