"""Six-hour tide level forecasts."""
import dataclasses

import keras
import numpy as np
import tensorflow as tf


@dataclasses.dataclass
class Config:
    hours: int = 120_000
    context: int = 72
    horizon: int = 6
    batch_size: int = 256
    epochs: int = 25
    rate: float = 1e-3


def levels(cfg):
    rng = np.random.default_rng(30)
    t = np.arange(cfg.hours, dtype=np.float32)
    wave = np.sin(2 * np.pi * t / 12.42) + 0.3 * np.sin(2 * np.pi * t / 24.0)
    return (wave + 0.05 * rng.standard_normal(cfg.hours)).astype(np.float32)


def windows(cfg, series):
    span = cfg.context + cfg.horizon
    view = np.lib.stride_tricks.sliding_window_view(series, span)
    return view[:, : cfg.context, None].copy(), view[:, cfg.context :].copy()


def datasets(cfg, series):
    split = int(0.9 * len(series))
    result = []
    for name, part in (("train", series[:split]), ("valid", series[split:])):
        ds = tf.data.Dataset.from_tensor_slices(windows(cfg, part))
        if name == "train":
            ds = ds.shuffle(8192)
            ds = ds.repeat(cfg.epochs)
        ds = ds.batch(cfg.batch_size, drop_remainder=name == "train")
        result.append(ds.prefetch(tf.data.AUTOTUNE))
    return result


def forecaster(cfg):
    inputs = keras.Input((cfg.context, 1))
    x = inputs
    for rate in (1, 2, 4, 8):
        x = keras.layers.Conv1D(
            64, 3, dilation_rate=rate, padding="causal", activation="relu"
        )(x)
    x = keras.layers.Flatten()(x)
    return keras.Model(inputs, keras.layers.Dense(cfg.horizon)(x))


def main():
    cfg = Config()
    train, valid = datasets(cfg, levels(cfg))
    model = forecaster(cfg)
    model.compile(optimizer=keras.optimizers.Adam(cfg.rate), loss="mse", metrics=["mae"])
    model.fit(
        train,
        validation_data=valid,
        epochs=cfg.epochs,
        callbacks=[keras.callbacks.CSVLogger("tide.csv")],
        verbose=2,
    )


if __name__ == "__main__":
    main()
