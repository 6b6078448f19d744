"""Five-fold estimate of soil moisture from radar backscatter."""
import keras
import numpy as np
import tensorflow as tf
from keras import layers

FOLDS, BATCH, EPOCHS = 5, 512, 30


def observations(n=80_000, seed=6):
    rng = np.random.default_rng(seed)
    moisture = rng.beta(2, 4, n)
    ndvi = rng.uniform(0, 0.9, n)
    angle = rng.uniform(29, 46, n)
    vv = -18 + 12 * moisture - 0.1 * (angle - 37) + rng.normal(0, 0.6, n)
    vh = -24 + 8 * moisture + 4 * ndvi + rng.normal(0, 0.6, n)
    x = np.column_stack([vv, vh, vv - vh, ndvi, angle, ndvi * angle])
    return x, moisture


def folds(n, k, seed=0):
    order = np.random.default_rng(seed).permutation(n)
    for part in np.array_split(order, k):
        mask = np.ones(n, bool)
        mask[part] = False
        yield np.flatnonzero(mask), part


def build(normalizer):
    inputs = keras.Input((6,))
    x = normalizer(inputs)
    for units in (256, 256, 128):
        x = layers.Dense(units, activation="gelu")(x)
        x = layers.Dropout(0.05)(x)
    return keras.Model(inputs, layers.Dense(1, activation="sigmoid")(x))


def dataset(x, y, training):
    ds = tf.data.Dataset.from_tensor_slices((x.astype("float32"), y.astype("float32")))
    if training:
        ds = ds.shuffle(16_384).repeat()
    return ds.batch(BATCH, drop_remainder=training).prefetch(tf.data.AUTOTUNE)


def main():
    x, y = observations()
    scores = []
    for fold, (train, test) in enumerate(folds(len(x), FOLDS)):
        keras.backend.clear_session()
        normalizer = layers.Normalization()
        normalizer.adapt(x[train].astype("float32"))
        model = build(normalizer)
        model.compile(keras.optimizers.AdamW(1e-3), loss="mse")
        model.fit(
            dataset(x[train], y[train], True),
            steps_per_epoch=len(train) // BATCH,
            epochs=EPOCHS,
            verbose=0,
        )
        predicted = model.predict(dataset(x[test], y[test], False), verbose=0)[:, 0]
        rmse = float(np.sqrt(np.mean((predicted - y[test]) ** 2)))
        scores.append(rmse)
        print(f"fold {fold}: rmse {rmse:.4f}")
    print(f"mean {np.mean(scores):.4f} +- {np.std(scores):.4f}")


if __name__ == "__main__":
    main()
