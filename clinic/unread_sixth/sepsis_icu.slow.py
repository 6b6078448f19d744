# CS-7641 project part 2: early sepsis warning
# Team: the Lactates
import numpy as np
import tensorflow as tf
from sklearn.metrics import average_precision_score, roc_auc_score

HOURS = 168
SEED = 42


class Config:
    units = 96
    dropout = 0.2
    lr = 7e-4
    batch = 128
    epochs = 30


def load_stays(path="icu_stays.npz"):
    """vitals (24510, 168, 36) with nan for missing, label (24510,)"""
    z = np.load(path)
    return z["vitals"].astype("float32"), z["label"].astype("float32")


def impute(v):
    miss = np.isnan(v)
    idx = np.where(~miss, np.arange(v.shape[1])[None, :, None], 0)
    np.maximum.accumulate(idx, axis=1, out=idx)
    filled = np.take_along_axis(v, idx, axis=1)
    med = np.nanmedian(v.reshape(-1, v.shape[-1]), axis=0)
    filled = np.where(np.isnan(filled), med, filled)
    return filled.astype("float32"), (~miss).astype("float32")


def split(n, rng):
    p = rng.permutation(n)
    a, b = int(0.7 * n), int(0.85 * n)
    return p[:a], p[a:b], p[b:]


def build(cfg, n_feat):
    inputs = tf.keras.Input((HOURS, n_feat))
    x = tf.keras.layers.Dense(64, activation="relu")(inputs)
    x = tf.keras.layers.LSTM(cfg.units, return_sequences=True,
                             dropout=cfg.dropout, recurrent_dropout=cfg.dropout)(x)
    x = tf.keras.layers.LSTM(cfg.units,
                             dropout=cfg.dropout, recurrent_dropout=cfg.dropout)(x)
    x = tf.keras.layers.Dense(32, activation="relu")(x)
    outputs = tf.keras.layers.Dense(1, activation="sigmoid")(x)
    return tf.keras.Model(inputs, outputs, name="sepsis")


def main():
    tf.keras.utils.set_random_seed(SEED)
    cfg = Config()
    vitals, label = load_stays()
    values, seen = impute(vitals)

    tr, va, te = split(len(label), np.random.default_rng(SEED))
    mu = values[tr].mean(axis=(0, 1))
    sd = values[tr].std(axis=(0, 1)) + 1e-5
    X = np.concatenate([(values - mu) / sd, seen], axis=-1)

    pos = label[tr].mean()
    weights = {0: 0.5 / (1 - pos), 1: 0.5 / pos}
    print(f"prevalence {pos:.3f}, weights {weights}")

    model = build(cfg, X.shape[-1])
    model.summary()
    model.compile(
        optimizer=tf.keras.optimizers.Adam(cfg.lr, clipnorm=1.0),
        loss="binary_crossentropy",
        metrics=[tf.keras.metrics.AUC(name="auc"), tf.keras.metrics.AUC(curve="PR", name="ap")],
    )
    stop = tf.keras.callbacks.EarlyStopping(monitor="val_ap", mode="max", patience=6,
                                            restore_best_weights=True)
    model.fit(X[tr], label[tr], batch_size=cfg.batch, epochs=cfg.epochs,
              validation_data=(X[va], label[va]), class_weight=weights,
              callbacks=[stop], verbose=2)

    p = model.predict(X[te], batch_size=512, verbose=0).ravel()
    print("test AUROC %.3f" % roc_auc_score(label[te], p))
    print("test AUPRC %.3f" % average_precision_score(label[te], p))

    thr = np.quantile(p[label[te] == 1], 0.2)
    alarm = p >= thr
    print("at 80%% sensitivity: PPV %.3f, alarms per 100 stays %.1f"
          % (label[te][alarm].mean(), 100 * alarm.mean()))
    model.save("sepsis_lstm.keras")


if __name__ == "__main__":
    main()
