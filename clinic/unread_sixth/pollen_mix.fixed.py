"""Vegetation composition around lakes from pollen, climate and terrain.

Each site has land-cover fractions of 14 taxa (they sum to one); the network predicts them.
"""
import numpy as np
import pandas as pd
import tensorflow as tf

TAXA = ["Picea", "Pinus", "Betula", "Alnus", "Quercus", "Fagus", "Ulmus", "Tilia",
        "Corylus", "Salix", "Juniperus", "Poaceae", "Cyperaceae", "Calluna"]
ENV = ["mat", "map", "gdd5", "elev", "slope", "lake_ha", "clay", "ph"]


def read_sites(path):
    df = pd.read_csv(path)
    df = df.dropna(subset=ENV)
    df = df[df[[f"cover_{t}" for t in TAXA]].sum(axis=1) > 0]
    cover = df[[f"cover_{t}" for t in TAXA]].fillna(0).to_numpy("float32")
    cover = cover / cover.sum(axis=1, keepdims=True)
    pollen = np.sqrt(df[[f"pollen_{t}" for t in TAXA]].fillna(0).to_numpy("float32"))
    env = df[ENV].to_numpy("float32")
    env = (env - env.mean(0)) / env.std(0)
    return np.hstack([pollen, env]).astype("float32"), cover, df["region"].to_numpy()


def composition_loss(y_true, y_pred):
    """Kullback-Leibler divergence of the observed and the modelled composition."""
    y_true = tf.clip_by_value(y_true, 1e-7, 1.0)
    y_pred = tf.clip_by_value(y_pred, 1e-7, 1.0)
    return tf.reduce_sum(y_true * (tf.math.log(y_true) - tf.math.log(y_pred)), axis=-1)


def bray_curtis(y_true, y_pred):
    return 0.5 * tf.reduce_sum(tf.abs(y_true - y_pred), axis=-1)


def network(n_in, n_out, width=128, depth=3):
    net = tf.keras.Sequential([tf.keras.Input((n_in,))])
    for _ in range(depth):
        net.add(tf.keras.layers.Dense(width, activation="elu",
                                      kernel_regularizer=tf.keras.regularizers.l2(1e-5)))
        net.add(tf.keras.layers.Dropout(0.15))
    net.add(tf.keras.layers.Dense(n_out, activation="softmax"))
    return net


X, Y, region = read_sites("lakes_europe.csv")      # 86,000 grid cells x 22 columns
print(X.shape, Y.shape, "empty taxa per site: %.1f" % (Y == 0).sum(1).mean())

test_regions = ["Karelia", "Jura", "Galicia"]
test = np.isin(region, test_regions)
Xtr, Ytr = X[~test], Y[~test]
Xte, Yte = X[test], Y[test]

perm = np.random.default_rng(2).permutation(len(Xtr))
Xtr, Ytr = Xtr[perm], Ytr[perm]

train = (tf.data.Dataset.from_tensor_slices((Xtr, Ytr))
         .batch(256)
         .cache()
         .shuffle(200)
         .prefetch(tf.data.AUTOTUNE))
check = tf.data.Dataset.from_tensor_slices((Xte, Yte)).batch(1024).prefetch(tf.data.AUTOTUNE)

model = network(X.shape[1], len(TAXA))
model.compile(optimizer=tf.keras.optimizers.Adam(5e-4), loss=composition_loss,
              metrics=[bray_curtis])
history = model.fit(train, validation_data=check, epochs=60, verbose=2)

P = model.predict(Xte, batch_size=1024, verbose=0)
for k, t in enumerate(TAXA):
    r = np.corrcoef(P[:, k], Yte[:, k])[0, 1]
    print(f"{t:12s} r = {r:.2f}   mean cover {Yte[:, k].mean():.3f} / {P[:, k].mean():.3f}")
pd.DataFrame(history.history).to_csv("history_pollen.csv")
model.save_weights("pollen.weights.h5")
