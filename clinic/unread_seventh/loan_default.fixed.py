# Home loan default, Kaggle style: engineered numeric table -> residual MLP, 5 folds
import gc
import os

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold

os.environ["KERAS_BACKEND"] = "tensorflow"
import keras
from keras import layers

SEED = 42
BATCH = 4096
EPOCHS = 30
FOLDS = 5
INPUT = "../input/loan-features"


def read_tables():
    train = pd.read_parquet(f"{INPUT}/train_agg.parquet")
    test = pd.read_parquet(f"{INPUT}/test_agg.parquet")
    drop = {"SK_ID_CURR", "TARGET"}
    features = [c for c in train.columns if c not in drop and train[c].notna().mean() > 0.05]
    print(len(train), "rows,", len(features), "features")     # 307511 rows, 384 features
    return train, test, features


def rank_gauss(train, test, features):
    """Clip, log the long tails, standardise, fill holes with zero."""
    both = pd.concat([train[features], test[features]], ignore_index=True).astype("float32")
    skew = both.skew()
    tails = skew[skew.abs() > 3].index
    both[tails] = np.sign(both[tails]) * np.log1p(both[tails].abs())
    both = (both - both.mean()) / (both.std() + 1e-6)
    both = both.clip(-6, 6).fillna(0.0).astype("float32")
    return both.iloc[: len(train)].reset_index(drop=True), both.iloc[len(train) :].reset_index(drop=True)


def to_inputs(frame):
    return frame.to_numpy(dtype="float32")


def res_block(x, width, rate):
    h = layers.LayerNormalization()(x)
    h = layers.Dense(width * 2, activation="gelu")(h)
    h = layers.Dropout(rate)(h)
    h = layers.Dense(width)(h)
    return layers.Add()([x, h])


def make_model(features, width=256, depth=4, rate=0.2):
    inputs = keras.Input((len(features),), name="features")
    x = layers.GaussianNoise(0.05)(inputs)
    x = layers.Dense(width)(x)
    for _ in range(depth):
        x = res_block(x, width, rate)
    x = layers.LayerNormalization()(x)
    out = layers.Dense(1, activation="sigmoid", dtype="float32")(x)
    model = keras.Model(inputs, out)
    model.compile(
        optimizer=keras.optimizers.AdamW(1e-3, weight_decay=1e-3),
        loss=keras.losses.BinaryCrossentropy(label_smoothing=0.01),
        metrics=[keras.metrics.AUC(name="auc", num_thresholds=200)],
        steps_per_execution=8,
    )
    return model


def main():
    keras.utils.set_random_seed(SEED)
    keras.mixed_precision.set_global_policy("mixed_float16")
    train, test, features = read_tables()
    y = train["TARGET"].to_numpy("float32")
    ids = test["SK_ID_CURR"]
    x_train, x_test = rank_gauss(train, test, features)
    del train, test
    gc.collect()

    oof = np.zeros(len(y), "float32")
    submission = np.zeros(len(x_test), "float32")
    test_inputs = to_inputs(x_test)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=SEED)
    for fold, (tr, va) in enumerate(folds.split(x_train, y)):
        keras.backend.clear_session()
        model = make_model(features)
        fit_inputs = to_inputs(x_train.iloc[tr])
        val_inputs = to_inputs(x_train.iloc[va])
        model.fit(
            fit_inputs,
            y[tr],
            batch_size=BATCH,
            epochs=EPOCHS,
            validation_data=(val_inputs, y[va]),
            validation_batch_size=4 * BATCH,
            verbose=2,
            callbacks=[
                keras.callbacks.ReduceLROnPlateau(monitor="val_auc", mode="max", patience=2, factor=0.4),
                keras.callbacks.EarlyStopping(monitor="val_auc", mode="max", patience=6, restore_best_weights=True),
            ],
        )
        oof[va] = model.predict(val_inputs, batch_size=4 * BATCH, verbose=0)[:, 0]
        submission += model.predict(test_inputs, batch_size=4 * BATCH, verbose=0)[:, 0] / FOLDS
        print(f"fold {fold}: auc {roc_auc_score(y[va], oof[va]):.5f}")

    print(f"out of fold: auc {roc_auc_score(y, oof):.5f}")
    pd.DataFrame({"SK_ID_CURR": ids, "TARGET": submission}).to_csv("submission.csv", index=False)
    np.save("oof.npy", oof)


if __name__ == "__main__":
    main()
