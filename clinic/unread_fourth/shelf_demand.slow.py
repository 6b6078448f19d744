"""Daily unit demand per shelf slot. Nightly job; writes the model next to the price file."""
import logging
import os

import keras
import numpy as np
import tensorflow as tf
from keras import layers

log = logging.getLogger("shelf_demand")

CATEGORICAL = {"store": 220, "article": 9_000, "weekday": 7, "promo": 5}
NUMERIC = ["price", "price_rel", "stock", "temp", "lag7", "lag28"]


def extract(n=600_000, seed=2024):
    rng = np.random.default_rng(seed)
    cats = {k: rng.integers(0, size, n, dtype=np.int32) for k, size in CATEGORICAL.items()}
    base = rng.gamma(0.6, 2.0, n)
    lift = 1.0 + 0.25 * cats["promo"]
    units = rng.poisson(base * lift).astype(np.float32)
    numbers = np.stack([
        rng.gamma(2.0, 3.0, n),
        rng.normal(1.0, 0.1, n),
        rng.integers(0, 60, n),
        rng.normal(12, 8, n),
        base * rng.uniform(0.7, 1.3, n),
        base * rng.uniform(0.5, 1.5, n),
    ], axis=1).astype(np.float32)
    return {**cats, "numbers": numbers}, units[:, None]


@keras.saving.register_keras_serializable("shelf")
class CountDeviance(keras.losses.Loss):
    """Poisson deviance; slots that sold nothing contribute only their forecast."""

    def __init__(self, floor=1e-6, name="count_deviance", **kw):
        super().__init__(name=name, **kw)
        self.floor = floor

    def call(self, y_true, y_pred):
        y = tf.cast(y_true, y_pred.dtype)
        mu = y_pred + self.floor
        sold = tf.where(y > 0, y * tf.math.log(y / mu), tf.zeros_like(y))
        return tf.reduce_mean(2.0 * (sold - y + mu), axis=-1)


def network(normaliser):
    inputs = {k: keras.Input((), dtype="int32", name=k) for k in CATEGORICAL}
    inputs["numbers"] = keras.Input((len(NUMERIC),), name="numbers")
    parts = [layers.Embedding(size, min(24, 1 + size // 3), name=f"emb_{k}")(inputs[k])
             for k, size in CATEGORICAL.items()]
    x = layers.Concatenate()(parts + [normaliser(inputs["numbers"])])
    for width in (256, 128):
        x = layers.Dense(width, activation="gelu")(x)
        x = layers.Dropout(0.1)(x)
    mu = layers.Dense(1, activation="softplus", name="mu")(x)
    return keras.Model(inputs, mu)


def split(x, y, at):
    return ({k: v[:at] for k, v in x.items()}, y[:at]), ({k: v[at:] for k, v in x.items()}, y[at:])


def train(out_dir):
    x, y = extract()
    fit_part, check_part = split(x, y, int(len(y) * 0.9))

    norm = layers.Normalization(axis=-1)
    norm.adapt(fit_part[0]["numbers"])
    model = network(norm)
    schedule = keras.optimizers.schedules.CosineDecay(1e-3, decay_steps=30 * 264)
    model.compile(optimizer=keras.optimizers.AdamW(schedule), loss=CountDeviance(), metrics=["mae"])
    history = model.fit(
        *fit_part,
        batch_size=2048,
        validation_data=check_part,
        validation_batch_size=8192,
        epochs=30,
        verbose=2,
    )
    log.info("final validation deviance %.4f", history.history["val_loss"][-1])
    model.save(os.path.join(out_dir, "shelf_demand.keras"))


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    train(os.environ.get("SHELF_OUT", "."))
