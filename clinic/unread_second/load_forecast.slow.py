# Electricity load forecasting, 24h ahead from one week of history
import numpy as np
import tensorflow as tf
import tensorflow.keras as K

CFG = dict(
    n_hours=24 * 365 * 12,
    n_feat=6,
    lookback=168,
    horizon=24,
    batch=256,
    epochs=5,
    lr=1e-3,
)


def make_series(n, f):
    rng = np.random.RandomState(11)
    t = np.arange(n)[:, None]
    base = np.sin(2 * np.pi * t / 24) + 0.5 * np.sin(2 * np.pi * t / 168)
    drift = rng.randn(n, f).cumsum(0) * 0.01
    s = base + drift + 0.1 * rng.randn(n, f)
    s = (s - s.mean(0)) / s.std(0)
    return s.astype("float32")


def window_gen(series, lookback, horizon):
    last = len(series) - lookback - horizon
    order = np.random.permutation(last)
    for i in order:
        x = series[i:i + lookback]
        y = series[i + lookback:i + lookback + horizon, 0]
        yield x, y


def windows(series, cfg):
    L, H, F = cfg["lookback"], cfg["horizon"], cfg["n_feat"]
    ds = tf.data.Dataset.from_generator(
        lambda: window_gen(series, L, H),
        output_signature=(
            tf.TensorSpec((L, F), tf.float32),
            tf.TensorSpec((H,), tf.float32),
        ),
    )
    ds = ds.batch(cfg["batch"], drop_remainder=True)
    return ds.prefetch(tf.data.AUTOTUNE)


def tcn(cfg):
    inp = K.Input((cfg["lookback"], cfg["n_feat"]))
    x = inp
    for d in (1, 2, 4, 8, 16):
        h = K.layers.Conv1D(32, 3, padding="causal", dilation_rate=d, activation="relu")(x)
        h = K.layers.SpatialDropout1D(0.05)(h)
        if x.shape[-1] != 32:
            x = K.layers.Conv1D(32, 1)(x)
        x = K.layers.Add()([x, h])
    x = x[:, -1]
    return K.Model(inp, K.layers.Dense(cfg["horizon"])(x))


if __name__ == "__main__":
    series = make_series(CFG["n_hours"], CFG["n_feat"])
    split = int(0.9 * len(series))
    train, test = windows(series[:split], CFG), windows(series[split:], CFG)

    model = tcn(CFG)
    model.compile(K.optimizers.Adam(CFG["lr"]), loss="mae")
    model.fit(train, validation_data=test, epochs=CFG["epochs"], verbose=2)
    print(dict(zip(model.metrics_names, [model.evaluate(test, verbose=0)])))
