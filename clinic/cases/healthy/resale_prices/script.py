# %% [markdown]
# House prices, wide MLP on engineered features (notebook exported as a script)
# %%
import os
import tempfile
import time

import numpy as np
import keras
from keras import layers

SEED, N, RAW, BATCH, EPOCHS = 42, 20000, 64, 1024, 4
keras.utils.set_random_seed(SEED)

# %% data
rng = np.random.default_rng(SEED)
raw = {f"f{i}": rng.normal(0, 1 + i % 3, N).astype("float32") for i in range(RAW)}
price = np.exp(0.2 * raw["f0"] - 0.1 * raw["f1"] * raw["f2"] + rng.normal(0, 0.1, N)).astype("float32")


# %% features
def engineer(columns):
    made = []
    for name, values in columns.items():
        lo, hi = np.quantile(values, [0.01, 0.99])
        clipped = np.clip(values, lo, hi)
        made += [values, clipped ** 2, np.abs(clipped), np.sign(values) * np.log1p(np.abs(values))]
    table = np.stack(made, axis=1)
    return (table - table.mean(0)) / (table.std(0) + 1e-6)


X = engineer(raw).astype("float32")
y = np.log(price)[:, None]
order = rng.permutation(N)
train_idx, valid_idx = order[: N - 512], order[N - 512:]
print("features", X.shape)


# %% model
def dense_block(x, units):
    return layers.Dense(units, activation="relu", kernel_initializer="he_normal")(x)


inputs = keras.Input((X.shape[1],))
h = dense_block(inputs, 1024)
h = dense_block(h, 1024)
h = dense_block(h, 1024)
h = dense_block(h, 256)
model = keras.Model(inputs, layers.Dense(1)(h))
model.compile(optimizer=keras.optimizers.SGD(0.005, momentum=0.9), loss="mse",
              metrics=[keras.metrics.RootMeanSquaredError(name="rmsle")])


class Best(keras.callbacks.Callback):
    def __init__(self, path):
        super().__init__()
        self.path, self.best = path, np.inf

    def on_train_batch_end(self, batch, logs=None):
        self.last = batch

    def on_epoch_end(self, epoch, logs=None):
        if logs["val_rmsle"] < self.best:
            self.best = logs["val_rmsle"]
            self.model.save_weights(self.path)
        print(f"epoch {epoch} after batch {self.last}: {logs['rmsle']:.4f} / {logs['val_rmsle']:.4f}")


# %% train
with tempfile.TemporaryDirectory() as folder:
    weights = os.path.join(folder, "best.weights.h5")
    t0 = time.time()
    model.fit(X[train_idx], y[train_idx], validation_data=(X[valid_idx], y[valid_idx]),
              batch_size=BATCH, epochs=EPOCHS, verbose=0, callbacks=[Best(weights)])
    seconds = time.time() - t0
    model.load_weights(weights)
print("WORK", EPOCHS * len(train_idx))
print(f"TRAIN_SECONDS {seconds:.3f}")
