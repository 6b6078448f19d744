"""Message passing network that regresses a synthetic molecular energy from atom types and distances."""
import argparse
import random
import time

import numpy as np
import tensorflow as tf
from tensorflow import keras


def make_reproducible(seed: int) -> None:
    """Same numbers on every run, whatever the order the ops are scheduled in."""
    random.seed(seed)
    np.random.seed(seed)
    keras.utils.set_random_seed(seed)
    tf.config.experimental.enable_op_determinism()
    tf.config.run_functions_eagerly(True)


def synth_molecules(n, atoms, rng):
    z = rng.integers(1, 10, size=(n, atoms)).astype("int32")
    xyz = rng.normal(size=(n, atoms, 3)).astype("float32") * 2.0
    d = np.sqrt(((xyz[:, :, None] - xyz[:, None]) ** 2).sum(-1) + 1e-3)
    pair = z[:, :, None] * z[:, None] / (d + 1.0)
    e = pair.sum((1, 2)) / atoms**2
    e = (e - e.mean()) / e.std()
    return z, d.astype("float32"), e.astype("float32")


class RadialBasis(keras.layers.Layer):
    def __init__(self, k, cutoff=6.0, **kw):
        super().__init__(**kw)
        self.centers = np.linspace(0.0, cutoff, k, dtype="float32")

    def call(self, d):
        return tf.exp(-4.0 * tf.square(d[..., None] - self.centers))


class Interaction(keras.layers.Layer):
    def __init__(self, width, **kw):
        super().__init__(**kw)
        self.filt = keras.Sequential([keras.layers.Dense(width, activation="softplus"), keras.layers.Dense(width)])
        self.inp = keras.layers.Dense(width)
        self.out = keras.Sequential([keras.layers.Dense(width, activation="softplus"), keras.layers.Dense(width)])
        self.norm = keras.layers.LayerNormalization()

    def build(self, input_shape):
        hs, rs = input_shape
        self.filt.build(rs)
        self.inp.build(hs)
        self.out.build(hs)
        self.norm.build(hs)

    def call(self, inputs):
        h, rbf = inputs
        w = self.filt(rbf)
        m = tf.einsum("bijc,bjc->bic", w, self.inp(h))
        return self.norm(h + self.out(m))


def build(atoms, width, blocks):
    z = keras.Input((atoms,), dtype="int32")
    d = keras.Input((atoms, atoms))
    rbf = RadialBasis(8)(d)
    h = keras.layers.Embedding(10, width)(z)
    for _ in range(blocks):
        h = Interaction(width)([h, rbf])
    e = keras.layers.Dense(1)(keras.layers.Dense(width, activation="softplus")(h))
    return keras.Model([z, d], keras.layers.GlobalAveragePooling1D()(e))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--atoms", type=int, default=9)
    ap.add_argument("--molecules", type=int, default=544)
    ap.add_argument("--epochs", type=int, default=2)
    ap.add_argument("--seed", type=int, default=11)
    args = ap.parse_args()
    make_reproducible(args.seed)
    rng = np.random.default_rng(args.seed)
    z, d, e = synth_molecules(args.molecules, args.atoms, rng)
    model = build(args.atoms, 24, 2)
    model.compile(keras.optimizers.Adam(2e-3), "mse", metrics=["mae"])
    t0 = time.perf_counter()
    hist = model.fit([z, d], e, batch_size=16, epochs=args.epochs, verbose=2)
    print(f"trained in {time.perf_counter() - t0:.1f}s, mae {hist.history['mae'][-1]:.3f}")


if __name__ == "__main__":
    main()
