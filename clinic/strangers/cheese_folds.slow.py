"""Cheese ripeness from sensor readings: four folds for each learning rate."""
import itertools

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(2)
rng = np.random.default_rng(2)

x = rng.normal(0, 1, (640, 18)).astype("float32")
w = rng.normal(0, 1, (18,))
y = (np.sin(x @ w) + 0.3 * x[:, 0] + rng.normal(0, 0.1, 640)).astype("float32")

FOLDS = 4
folds = np.array_split(rng.permutation(len(x)), FOLDS)


def build_model(lr):
    inputs = tf.keras.Input((18,))
    h = inputs
    for units in (48, 24):
        h = tf.keras.layers.Dense(units)(h)
        h = tf.keras.layers.BatchNormalization()(h)
        h = tf.keras.layers.Activation("relu")(h)
        h = tf.keras.layers.Dropout(0.1)(h)
    model = tf.keras.Model(inputs, tf.keras.layers.Dense(1)(h))
    model.compile(optimizer=tf.keras.optimizers.Adam(lr), loss="mse", metrics=["mae"])
    return model


def run_fold(lr, k):
    test = folds[k]
    train = np.concatenate([f for j, f in enumerate(folds) if j != k])
    model = build_model(lr)
    history = model.fit(
        x[train], y[train],
        validation_data=(x[test], y[test]),
        batch_size=32, epochs=4, verbose=0,
    )
    return history.history["val_mae"][-1]


results = {}
for lr, k in itertools.product([1e-3, 3e-3], range(FOLDS)):
    results.setdefault(lr, []).append(run_fold(lr, k))

for lr, scores in results.items():
    print(f"lr {lr:g}: val mae {np.mean(scores):.3f} +- {np.std(scores):.3f}")
best = min(results, key=lambda lr: np.mean(results[lr]))
print("best", best)
