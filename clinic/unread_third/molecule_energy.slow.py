"""Potential energies of small molecules from pair distances (deep-set style)."""
import keras
import numpy as np
import tensorflow as tf
from keras import layers

CONFIG = {
    "atoms": 18,
    "basis": 64,
    "width": 512,
    "molecules": 20_000,
    "batch": 128,
    "epochs": 20,
    "lr": 5e-4,
    "precision": "float64",
}


def molecules(cfg):
    rng = np.random.default_rng(14)
    pos = rng.normal(size=(cfg["molecules"], cfg["atoms"], 3))
    i, j = np.triu_indices(cfg["atoms"], k=1)
    r = np.linalg.norm(pos[:, i] - pos[:, j], axis=-1) + 0.5
    energy = (1 / r ** 6 - 1 / r ** 3).sum(axis=1, keepdims=True)
    energy = (energy - energy.mean()) / energy.std()
    return r.astype(cfg["precision"]), energy.astype(cfg["precision"])


class RadialBasis(layers.Layer):
    def __init__(self, n, cutoff=6.0, **kw):
        super().__init__(**kw)
        self.n, self.cutoff = n, cutoff

    def build(self, shape):
        centres = np.linspace(0.5, self.cutoff, self.n)
        self.centres = self.add_weight(
            shape=(self.n,), initializer=keras.initializers.Constant(centres), trainable=False)

    def call(self, r):
        return keras.ops.exp(-4.0 * keras.ops.square(r[..., None] - self.centres))

    def compute_output_shape(self, shape):
        return (*shape, self.n)


def energy_net(cfg):
    pairs = cfg["atoms"] * (cfg["atoms"] - 1) // 2
    r = keras.Input((pairs,))
    h = RadialBasis(cfg["basis"])(r)
    h = layers.Dense(cfg["width"], activation="silu")(h)
    h = layers.Dense(cfg["width"], activation="silu")(h)
    h = layers.Dense(cfg["width"] // 2, activation="silu")(h)
    h = layers.GlobalAveragePooling1D()(h)
    h = layers.Dense(128, activation="silu")(h)
    return keras.Model(r, layers.Dense(1)(h))


def main(cfg=CONFIG):
    keras.config.set_floatx(cfg["precision"])
    r, e = molecules(cfg)
    cut = int(0.9 * len(r))
    train = tf.data.Dataset.from_tensor_slices((r[:cut], e[:cut]))
    train = train.shuffle(cut).batch(cfg["batch"], drop_remainder=True).prefetch(2)
    test = tf.data.Dataset.from_tensor_slices((r[cut:], e[cut:])).batch(512)

    model = energy_net(cfg)
    model.compile(optimizer=keras.optimizers.Adam(cfg["lr"]), loss="mse", metrics=["mae"])
    model.fit(train, epochs=cfg["epochs"], verbose=2)
    print(model.evaluate(test, verbose=0))


if __name__ == "__main__":
    main()
