"""Default probability on the loan book; every bureau variable has its own column."""
import numpy as np
import tensorflow as tf
from tensorflow import keras

N_LOANS = 200_000
N_COLS = 320
BATCH = 2048
COLUMNS = [f"bureau_{i:03d}" for i in range(N_COLS)]


def read_book(seed=33):
    rng = np.random.default_rng(seed)
    book = {c: rng.normal(size=(N_LOANS, 1)).astype("float32") for c in COLUMNS}
    risk = book["bureau_003"] * 0.8 - book["bureau_100"] * 0.5 - 2.0
    default = (rng.random((N_LOANS, 1)) < 1 / (1 + np.exp(-risk))).astype("float32")
    return book, default


def as_dataset(book, default, lo, hi):
    features = {c: v[lo:hi] for c, v in book.items()}
    target = default[lo:hi]
    n_batches = (hi - lo) // BATCH
    ds = tf.data.Dataset.range(n_batches).shuffle(n_batches)

    held = {c: tf.constant(v) for c, v in features.items()}
    held_target = tf.constant(target)

    def take(i):
        start = i * BATCH
        x = {c: v[start:start + BATCH] for c, v in held.items()}
        return x, held_target[start:start + BATCH]

    return ds.map(take, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


def scorecard():
    inputs = {c: keras.Input((1,), name=c) for c in COLUMNS}
    x = keras.layers.Concatenate()(list(inputs.values()))
    x = keras.layers.BatchNormalization()(x)
    x = keras.layers.Dense(128, activation="relu")(x)
    x = keras.layers.Dropout(0.2)(x)
    x = keras.layers.Dense(32, activation="relu")(x)
    pd = keras.layers.Dense(1, activation="sigmoid", name="pd")(x)
    return keras.Model(inputs, pd)


def main():
    book, default = read_book()
    cut = int(N_LOANS * 0.8)
    train = as_dataset(book, default, 0, cut)
    test = as_dataset(book, default, cut, N_LOANS)

    model = scorecard()
    model.compile(optimizer=keras.optimizers.Adam(1e-3),
                  loss="binary_crossentropy",
                  metrics=[keras.metrics.AUC(name="auc")])
    model.fit(train, epochs=10, verbose=2)
    print(model.evaluate(test, verbose=0))


if __name__ == "__main__":
    main()
