"""CNN surrogate for pressure fields around airfoils."""
from dataclasses import dataclass

import numpy as np
import tensorflow as tf


@dataclass(frozen=True)
class Setup:
    grid: int = 96
    samples: int = 1500
    width: int = 48
    batch: int = 16
    epochs: int = 12
    real: str = "float64"


cfg = Setup()
tf.keras.backend.set_floatx(cfg.real)


def panel_solver(n, grid):
    """Cheap stand-in for the CFD database."""
    rng = np.random.default_rng(8)
    xs = np.linspace(-1, 1, grid)
    gx, gy = np.meshgrid(xs, xs)
    aoa = rng.uniform(-0.2, 0.2, (n, 1, 1))
    thick = rng.uniform(0.05, 0.2, (n, 1, 1))
    sdf = np.abs(gy - aoa * gx) - thick * np.sqrt(np.clip(1 - gx**2, 0, None))
    speed = np.broadcast_to(aoa, sdf.shape)
    p = -np.exp(-8 * np.abs(sdf)) * (1 + 3 * aoa * np.sign(gy))
    x = np.stack([sdf, speed], axis=-1)
    return x.astype(cfg.real), p[..., None].astype(cfg.real)


def residual(x, ch, dilation):
    y = tf.keras.layers.Conv2D(ch, 3, padding="same", dilation_rate=dilation, activation="relu")(x)
    y = tf.keras.layers.Conv2D(ch, 3, padding="same")(y)
    return tf.keras.layers.ReLU()(tf.keras.layers.Add()([x, y]))


def surrogate():
    inp = tf.keras.Input((cfg.grid, cfg.grid, 2))
    x = tf.keras.layers.Conv2D(cfg.width, 5, padding="same", activation="relu")(inp)
    for d in (1, 2, 4, 8):
        x = residual(x, cfg.width, d)
    out = tf.keras.layers.Conv2D(1, 1)(x)
    return tf.keras.Model(inp, out)


def relative_l2(y_true, y_pred):
    num = tf.reduce_sum(tf.square(y_true - y_pred), axis=[1, 2, 3])
    den = tf.reduce_sum(tf.square(y_true), axis=[1, 2, 3])
    return tf.reduce_mean(tf.sqrt(num / den))


def main():
    x, p = panel_solver(cfg.samples, cfg.grid)
    k = cfg.samples // 10
    ds = tf.data.Dataset.from_tensor_slices((x[k:], p[k:]))
    ds = ds.shuffle(cfg.samples).batch(cfg.batch, drop_remainder=True)
    ds = ds.prefetch(tf.data.AUTOTUNE)
    schedule = tf.keras.optimizers.schedules.CosineDecay(1e-3, cfg.epochs * (cfg.samples // cfg.batch))
    model = surrogate()
    model.compile(tf.keras.optimizers.Adam(schedule), loss="mse", metrics=[relative_l2])
    model.fit(ds, validation_data=(x[:k], p[:k]), epochs=cfg.epochs, verbose=2)


if __name__ == "__main__":
    main()
