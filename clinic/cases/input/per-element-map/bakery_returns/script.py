"""How many loaves come back unsold from a branch: columns of the till export, one dense network."""
import time

import numpy as np
import tensorflow as tf

COLUMNS = ["orders", "temp", "rain", "queue", "staff", "price", "promo", "last_returns"]
EPOCHS, BATCH = 3, 1024


def till_export(n):
    rng = np.random.default_rng(50)
    table = {name: rng.gamma(2.0, 1.0, n).astype("float32") for name in COLUMNS}
    table["weekday"] = rng.integers(0, 7, n).astype("int32")
    table["branch"] = rng.integers(0, 30, n).astype("int32")
    factor = rng.normal(0, 0.3, 30)[table["branch"]] + 0.2 * np.sin(table["weekday"])
    returns = np.log1p(table["orders"]) * 0.5 + 0.2 * table["rain"] - 0.1 * table["promo"] + factor
    return table, (returns + 0.1 * rng.normal(size=n)).astype("float32")


def prepare(row, returns):
    numbers = tf.stack([tf.math.log1p(row[name]) for name in COLUMNS], axis=-1)
    weekday = tf.one_hot(row["weekday"], 7)
    branch = tf.one_hot(row["branch"], 30)
    return tf.concat([numbers, weekday, branch], axis=-1), returns


def dataset(table, returns):
    return (
        tf.data.Dataset.from_tensor_slices((table, returns))
        .shuffle(4096)
        .map(prepare, num_parallel_calls=tf.data.AUTOTUNE)
        .batch(BATCH, drop_remainder=True)
        .prefetch(tf.data.AUTOTUNE)
    )


def network():
    return tf.keras.Sequential([
        tf.keras.layers.Input((len(COLUMNS) + 37,)),
        tf.keras.layers.Dense(256, activation="relu"),
        tf.keras.layers.Dense(256, activation="relu"),
        tf.keras.layers.Dense(1),
    ])


if __name__ == "__main__":
    table, returns = till_export(81920)
    model = network()
    model.compile(optimizer=tf.keras.optimizers.Adam(1e-3), loss="mse", metrics=["mae"])
    start = time.time()
    model.fit(dataset(table, returns), epochs=EPOCHS, shuffle=False, verbose=2)
    print("WORK", EPOCHS * len(returns) // BATCH * BATCH)
    print("TRAIN_SECONDS %.3f" % (time.time() - start))
