"""Crop yield regression, ported from an Estimator script (input_fn / params kept as they were)."""
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

PARAMS = {
    "rows": 10240,
    "features": 36,
    "batch_size": 256,
    "num_epochs": 5,
    "hidden": [384, 384],
    "learning_rate": 1e-3,
}


def fields(rows, features, seed=8):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, features)).astype("float32")
    y = np.tanh(x[:, 0] * x[:, 1]) + 0.4 * x[:, 2] - 0.2 * np.abs(x[:, 3])
    return x, (y + 0.05 * rng.normal(size=rows)).astype("float32")


def input_fn(x, y, params, training):
    ds = tf.data.Dataset.from_tensor_slices((x, y))
    if training:
        ds = ds.shuffle(len(x), seed=1, reshuffle_each_iteration=True)
        ds = ds.repeat(params["num_epochs"])
    return ds.batch(params["batch_size"]).prefetch(tf.data.AUTOTUNE)


def model_fn(params):
    inp = layers.Input((params["features"],), name="field")
    h = inp
    for units in params["hidden"]:
        h = layers.Dense(units, activation="relu")(h)
    model = keras.Model(inp, layers.Dense(1)(h))
    model.compile(keras.optimizers.Adam(params["learning_rate"]), "mse", metrics=["mae"])
    return model


def train_and_evaluate(params):
    x, y = fields(params["rows"], params["features"])
    xv, yv = fields(2048, params["features"], seed=80)
    model = model_fn(params)
    t0 = time.time()
    model.fit(input_fn(x, y, params, True), epochs=params["num_epochs"], verbose=2)
    result = model.evaluate(input_fn(xv, yv, params, False), return_dict=True, verbose=0)
    print({k: round(float(v), 4) for k, v in result.items()})
    print("TRAIN_SECONDS %.2f" % (time.time() - t0))


if __name__ == "__main__":
    keras.utils.set_random_seed(11)
    train_and_evaluate(PARAMS)
