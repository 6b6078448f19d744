"""Telecom churn: wide-and-deep model on categorical and numeric columns."""
import time
from dataclasses import dataclass

import numpy as np
import tensorflow as tf
from tensorflow import keras


@dataclass(frozen=True)
class Cfg:
    rows: int = 16_000
    batch: int = 128
    epochs: int = 5
    lr: float = 1e-3


def customers(cfg):
    rng = np.random.default_rng(8)
    num = rng.normal(size=(cfg.rows, 24)).astype("float32")
    plan = rng.integers(0, 40, cfg.rows).astype("int32")
    region = rng.integers(0, 200, cfg.rows).astype("int32")
    score = num[:, :6].sum(1) + 0.1 * (plan - 20) + rng.normal(0, 2, cfg.rows)
    return {"num": num, "plan": plan, "region": region}, (score > 1).astype("float32")


def pipeline(table, label, cfg):
    ds = tf.data.Dataset.from_tensor_slices((table, label))
    ds = ds.shuffle(cfg.rows, seed=2)
    ds = ds.repeat(cfg.epochs)
    ds = ds.batch(cfg.batch, drop_remainder=True)
    return ds.prefetch(tf.data.AUTOTUNE)


def wide_and_deep():
    num = keras.Input((24,), name="num")
    plan = keras.Input((), dtype="int32", name="plan")
    region = keras.Input((), dtype="int32", name="region")
    deep = keras.layers.Concatenate()([num, keras.layers.Embedding(40, 8)(plan), keras.layers.Embedding(200, 16)(region)])
    for u in (128, 64):
        deep = keras.layers.Dense(u, activation="relu")(deep)
    out = keras.layers.Dense(1, activation="sigmoid")(keras.layers.Concatenate()([deep, num]))
    return keras.Model({"num": num, "plan": plan, "region": region}, out)


def main(cfg=Cfg()):
    table, label = customers(cfg)
    model = wide_and_deep()
    model.compile(keras.optimizers.Adam(cfg.lr), "binary_crossentropy", metrics=["accuracy"])
    t0 = time.perf_counter()
    model.fit(pipeline(table, label, cfg), epochs=cfg.epochs, verbose=2)
    print(f"{time.perf_counter() - t0:.1f}s")


if __name__ == "__main__":
    main()
