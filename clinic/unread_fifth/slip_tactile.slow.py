# %% [markdown]
# Slip detection from the 24-taxel fingertip of our gripper, 2 s windows at 200 Hz
# %%
import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import tensorflow as tf
from sklearn.metrics import classification_report
from sklearn.model_selection import GroupShuffleSplit
from tensorflow.keras import layers, callbacks

tf.keras.utils.set_random_seed(42)

# %%
d = np.load("tactile_windows.npz")
X = d["pressure"].astype("float32")      # (22000, 400, 24)
y = d["label"].astype("int32")           # 0 stable, 1 incipient slip, 2 slip
obj = d["object_id"]
print(X.shape, np.bincount(y))

split = GroupShuffleSplit(n_splits=1, test_size=0.2, random_state=0)
tr, te = next(split.split(X, y, groups=obj))
mu = X[tr].mean(axis=(0, 1))
sd = X[tr].std(axis=(0, 1)) + 1e-6
X = (X - mu) / sd

# %%
UNITS = 128


def slip_model():
    inp = layers.Input(shape=X.shape[1:])
    h = layers.GaussianNoise(0.05)(inp)
    h = layers.RNN([layers.GRUCell(UNITS), layers.GRUCell(UNITS)])(h)
    h = layers.Dropout(0.3)(h)
    h = layers.Dense(64, activation="relu")(h)
    return tf.keras.Model(inp, layers.Dense(3, activation="softmax")(h))


model = slip_model()
model.compile(
    optimizer=tf.keras.optimizers.Adam(1e-3),
    loss="sparse_categorical_crossentropy",
    metrics=["accuracy"],
)
model.summary()

# %%
hist = model.fit(
    X[tr], y[tr],
    validation_data=(X[te], y[te]),
    epochs=50,
    batch_size=256,
    callbacks=[
        callbacks.EarlyStopping(patience=10, restore_best_weights=True),
        callbacks.ReduceLROnPlateau(patience=4, factor=0.5),
    ],
    verbose=2,
)

# %%
pred = model.predict(X[te], batch_size=512, verbose=0).argmax(1)
print(classification_report(y[te], pred, target_names=["stable", "incipient", "slip"]))

fig, ax = plt.subplots(1, 2, figsize=(9, 3))
ax[0].plot(hist.history["loss"], label="train")
ax[0].plot(hist.history["val_loss"], label="val")
ax[0].legend()
ax[1].plot(hist.history["accuracy"])
ax[1].plot(hist.history["val_accuracy"])
fig.tight_layout()
fig.savefig("slip_training.png", dpi=120)
model.save("slip_gru.keras")
