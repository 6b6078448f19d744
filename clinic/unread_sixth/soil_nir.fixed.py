# Organic carbon from NIR spectra (LUCAS topsoil), snapshot ensemble
import math

import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import tensorflow as tf
from scipy.signal import savgol_filter
from sklearn.metrics import r2_score
from sklearn.model_selection import train_test_split

CYCLES = 5
EPOCHS_PER_CYCLE = 24
LR_MAX = 2e-3

spectra = np.load("lucas_spectra.npy").astype("float32")[:, ::4]   # 19036 x 1050
oc = np.log1p(np.load("lucas_oc.npy").astype("float32"))

d1 = savgol_filter(spectra, 15, 2, deriv=1, axis=1)
d1 = (d1 - d1.mean(1, keepdims=True)) / d1.std(1, keepdims=True)
X = d1.astype("float32")[..., None]

Xtr, Xte, ytr, yte = train_test_split(X, oc, test_size=0.15, random_state=1)
Xtr, Xva, ytr, yva = train_test_split(Xtr, ytr, test_size=0.15, random_state=1)


def residual(x, filters, stride):
    s = tf.keras.layers.Conv1D(filters, 1, strides=stride, padding="same")(x)
    h = tf.keras.layers.Conv1D(filters, 9, strides=stride, padding="same", activation="relu")(x)
    h = tf.keras.layers.BatchNormalization()(h)
    h = tf.keras.layers.Conv1D(filters, 9, padding="same")(h)
    return tf.keras.layers.ReLU()(tf.keras.layers.Add()([s, h]))


def spectral_resnet(n):
    inp = tf.keras.Input((n, 1))
    x = tf.keras.layers.Conv1D(32, 15, strides=2, padding="same", activation="relu")(inp)
    for f in (32, 64, 64, 128, 128, 128):
        x = residual(x, f, 2)
    x = tf.keras.layers.GlobalAveragePooling1D()(x)
    x = tf.keras.layers.Dense(64, activation="relu")(x)
    return tf.keras.Model(inp, tf.keras.layers.Dense(1)(x))


def lr_at(epoch):
    t = (epoch % EPOCHS_PER_CYCLE) / EPOCHS_PER_CYCLE
    return 0.5 * LR_MAX * (1 + math.cos(math.pi * t)) + 1e-6


model = spectral_resnet(X.shape[1])
val_curve, lr_curve, snapshots = [], [], []


def end_of_epoch(epoch, logs):
    val_curve.append(logs["val_loss"])
    lr_curve.append(lr_at(epoch))
    if (epoch + 1) % EPOCHS_PER_CYCLE == 0:
        snapshots.append(model.get_weights())
        print("cycle %d done, val mse %.4f" % (len(snapshots), val_curve[-1]))


model.compile(optimizer=tf.keras.optimizers.Adam(LR_MAX), loss="mse")
model.fit(Xtr, ytr, batch_size=256, epochs=CYCLES * EPOCHS_PER_CYCLE,
          validation_data=(Xva, yva), validation_batch_size=1024, verbose=0,
          callbacks=[tf.keras.callbacks.LearningRateScheduler(lambda epoch, lr: lr_at(epoch)),
                     tf.keras.callbacks.LambdaCallback(on_epoch_end=end_of_epoch)])

# ensemble of the snapshots
preds = []
for w in snapshots:
    model.set_weights(w)
    preds.append(model.predict(Xte, batch_size=1024, verbose=0)[:, 0])
preds = np.array(preds)
for k, p in enumerate(preds):
    print("snapshot %d  R2 %.3f" % (k, r2_score(yte, p)))
print("ensemble    R2 %.3f" % r2_score(yte, preds.mean(0)))

fig, ax = plt.subplots(2, 1, figsize=(7, 6), sharex=True)
ax[0].plot(val_curve)
ax[0].set_ylabel("val mse")
ax[1].plot(lr_curve)
ax[1].set_ylabel("learning rate")
fig.savefig("snapshots.png", dpi=150)
