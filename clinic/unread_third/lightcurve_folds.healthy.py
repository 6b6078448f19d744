"""Variable-star classification, five-fold cross-validation."""
import gc

import keras
import numpy as np
import tensorflow as tf
from keras import layers

FOLDS = 5
STEPS = 512
KINDS = 6


def survey(n=25_000):
    rng = np.random.default_rng(90)
    kind = rng.integers(0, KINDS, n)
    t = np.linspace(0, 20, STEPS)
    phase = rng.uniform(0, 6.28, (n, 1))
    flux = np.sin(t * (1 + kind[:, None]) + phase) + rng.normal(0, 0.3, (n, STEPS))
    return flux[..., None].astype("float32"), kind.astype("int32")


def make_model():
    inp = keras.Input((STEPS, 1))
    x = inp
    for f in (64, 128, 128):
        x = layers.Conv1D(f, 7, padding="same", use_bias=False)(x)
        x = layers.BatchNormalization()(x)
        x = layers.ReLU()(x)
        x = layers.MaxPooling1D(2)(x)
    x = layers.GlobalAveragePooling1D()(x)
    return keras.Model(inp, layers.Dense(KINDS, activation="softmax")(x))


def feed(x, y, training):
    ds = tf.data.Dataset.from_tensor_slices((x, y))
    if training:
        ds = ds.shuffle(len(x))
    return ds.batch(256).prefetch(tf.data.AUTOTUNE)


def main():
    x, y = survey()
    fold_of = np.random.default_rng(1).integers(0, FOLDS, len(x))
    out_of_fold = np.zeros((len(x), KINDS), "float32")
    for fold in range(FOLDS):
        keras.backend.clear_session()
        gc.collect()
        train, held = fold_of != fold, fold_of == fold
        model = make_model()
        model.compile(
            optimizer=keras.optimizers.Adam(1e-3),
            loss="sparse_categorical_crossentropy",
            metrics=["accuracy"])
        model.fit(feed(x[train], y[train], True), epochs=20, verbose=2,
                  validation_data=feed(x[held], y[held], False), validation_freq=5)
        out_of_fold[held] = model.predict(x[held], batch_size=1024, verbose=0)
        print(f"fold {fold}: {(out_of_fold[held].argmax(1) == y[held]).mean():.4f}")
    print("overall", (out_of_fold.argmax(1) == y).mean())


if __name__ == "__main__":
    main()
