"""Will the visitor of the online shop buy? Wide-ish tabular net over session columns."""
import dataclasses
import time

import numpy as np
import tensorflow as tf
from tensorflow.keras import layers, Model, Input

AUTO = tf.data.AUTOTUNE


@dataclasses.dataclass
class Settings:
    sessions: int = 60_000
    batch: int = 512
    epochs: int = 2
    countries: int = 60
    devices: int = 9
    jitter: float = 0.02


def sessions_table(s):
    g = np.random.default_rng(77)
    cols = {
        "country": g.integers(0, s.countries, s.sessions).astype("int32"),
        "device": g.integers(0, s.devices, s.sessions).astype("int32"),
        "pages": g.poisson(6, s.sessions).astype("float32"),
        "dwell": g.gamma(2.0, 40.0, s.sessions).astype("float32"),
        "basket": g.gamma(1.5, 30.0, s.sessions).astype("float32"),
    }
    odds = 0.01 * cols["basket"] - 0.05 * cols["pages"] + 0.1 * (cols["device"] % 3)
    cols["bought"] = (odds + g.normal(0, 0.3, s.sessions) > 0.2).astype("float32")
    return cols


class Recipe:
    def __init__(self, s):
        self.s = s

    def clip(self, row):
        return {**row, "dwell": tf.minimum(row["dwell"], 600.0), "basket": tf.minimum(row["basket"], 400.0)}

    def blur(self, row):
        noise = tf.random.uniform(tf.shape(row["basket"]), 1 - self.s.jitter, 1 + self.s.jitter)
        return {**row, "basket": row["basket"] * noise}

    def logs(self, row):
        return {**row, "dwell": tf.math.log1p(row["dwell"]), "basket": tf.math.log1p(row["basket"])}

    def cross(self, row):
        return {**row, "spot": row["country"] * self.s.devices + row["device"]}

    def split(self, row):
        dense = tf.stack([row["pages"], row["dwell"], row["basket"]], axis=-1)
        return (row["spot"], dense), row["bought"]

    @property
    def stages(self):
        return self.clip, self.blur, self.logs, self.cross, self.split


def assemble(cols, s):
    ds = tf.data.Dataset.from_tensor_slices(cols).shuffle(8192, seed=1)
    for stage in Recipe(s).stages:
        ds = ds.map(stage, num_parallel_calls=AUTO)
    return ds.batch(s.batch, drop_remainder=True).prefetch(AUTO)


def shopper(s):
    spot, dense = Input((), dtype="int32"), Input((3,))
    e = layers.Embedding(s.countries * s.devices, 16)(spot)
    h = layers.Concatenate()([e, layers.BatchNormalization()(dense)])
    for width in (768, 768):
        h = layers.Dense(width, activation="relu")(h)
    return Model([spot, dense], layers.Dense(1, activation="sigmoid")(h))


def main():
    s = Settings()
    ds = assemble(sessions_table(s), s)
    model = shopper(s)
    model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["AUC"])
    model.fit(ds.take(3), verbose=0)
    tic = time.time()
    model.fit(ds, epochs=s.epochs, verbose=2)
    toc = time.time()
    print("WORK", s.sessions // s.batch * s.batch * s.epochs)
    print("TRAIN_SECONDS %.3f" % (toc - tic))


if __name__ == "__main__":
    main()
