# Lithology along boreholes from wireline curves, section by section.
#
# Curves: gamma ray, bulk density, neutron porosity, sonic, deep resistivity,
# SP.  Seven rock classes.  Synthetic wells; the real ones are under NDA.
import argparse
import time
from dataclasses import dataclass

import keras
import numpy as np
import tensorflow as tf
from keras import layers

CURVES = ("GR", "RHOB", "NPHI", "DT", "RDEEP", "SP")
ROCKS = ("shale", "sand", "lime", "dolomite", "coal", "anhydrite", "tuff")
#                    GR   RHOB  NPHI   DT    R     SP
SIGNATURE = np.array([
    [110.0, 2.45, 0.33, 95.0, 0.4, 0.0],
    [40.0, 2.30, 0.20, 80.0, 1.3, -60.0],
    [25.0, 2.60, 0.10, 58.0, 1.9, -30.0],
    [22.0, 2.75, 0.12, 52.0, 2.0, -25.0],
    [35.0, 1.50, 0.45, 120.0, 2.4, -10.0],
    [10.0, 2.95, 0.01, 50.0, 3.2, -5.0],
    [75.0, 2.35, 0.28, 88.0, 0.9, -15.0],
])
SPREAD = np.array([18.0, 0.12, 0.06, 9.0, 0.45, 14.0])

WINDOW = 128
PER_SECTION = 16


@dataclass
class Well:
    name: str
    curves: tf.Tensor   # (windows, WINDOW, 6)
    lith: tf.Tensor     # (windows, WINDOW)
    weight: tf.Tensor   # (windows, WINDOW)


def drill(name, rng, n=20480):
    rocks = rng.choice(len(ROCKS), size=3000, p=[.34, .24, .14, .09, .05, .06, .08])
    lith = np.repeat(rocks, rng.integers(8, 60, size=rocks.size))[:n]
    trend = np.linspace(0.0, 1.0, n)[:, None] * np.array([5.0, 0.12, -0.04, -8.0, 0.2, 0.0])
    raw = SIGNATURE[lith] + trend + rng.normal(size=(n, len(CURVES))) * SPREAD
    raw = (raw - raw.mean(axis=0)) / raw.std(axis=0)
    freq = np.bincount(lith, minlength=len(ROCKS)) / n
    weight = 1.0 / np.sqrt(freq + 0.02)
    weight /= weight.mean()
    return Well(
        name,
        tf.constant(raw.reshape(-1, WINDOW, len(CURVES)), tf.float32),
        tf.constant(lith.reshape(-1, WINDOW), tf.int32),
        tf.constant(weight[lith].reshape(-1, WINDOW), tf.float32),
    )


def sections(well, n_pass, rng):
    """Random sections of one well; each carries where it came from."""
    order = rng.permutation(well.curves.shape[0])
    for start in range(0, len(order) - PER_SECTION + 1, PER_SECTION):
        pick = tf.constant(order[start:start + PER_SECTION], tf.int32)
        yield {
            "label": f"{well.name} pass {n_pass + 1}",
            "curves": tf.gather(well.curves, pick),
            "lith": tf.gather(well.lith, pick),
            "weight": tf.gather(well.weight, pick),
        }


def make_net():
    inp = keras.Input((WINDOW, len(CURVES)))
    x = layers.Conv1D(32, 7, padding="same", activation="relu")(inp)
    for width in (5, 9, 15):
        y = layers.Conv1D(32, width, padding="same", activation="relu")(x)
        x = layers.LayerNormalization()(layers.add([x, y]))
    x = layers.Conv1D(32, 1, activation="relu")(x)
    return keras.Model(inp, layers.Dense(len(ROCKS))(x), name="lith_net")


class Interpreter:
    def __init__(self, lr):
        self.net = make_net()
        self.opt = keras.optimizers.Adam(lr)
        self.opt.build(self.net.trainable_variables)

    @tf.function
    def train_step(self, section):
        with tf.GradientTape() as tape:
            logits = self.net(section["curves"], training=True)
            ce = tf.nn.sparse_softmax_cross_entropy_with_logits(section["lith"], logits)
            loss = tf.reduce_mean(ce * section["weight"])
        grads = tape.gradient(loss, self.net.trainable_variables)
        self.opt.apply_gradients(zip(grads, self.net.trainable_variables))
        return loss


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--wells", type=int, default=10)
    ap.add_argument("--passes", type=int, default=3)
    ap.add_argument("--lr", type=float, default=2e-3)
    args = ap.parse_args()

    keras.utils.set_random_seed(5)
    rng = np.random.default_rng(5)
    wells = [drill(f"W-{31 + 2 * k:03d}", rng) for k in range(args.wells)]
    interp = Interpreter(args.lr)

    t0 = time.time()
    count = 0
    for n_pass in range(args.passes):
        for well in wells:
            losses = []
            for section in sections(well, n_pass, rng):
                losses.append(interp.train_step(section))
            count += len(losses)
            print(f"{section['label']}: loss {float(tf.add_n(losses)) / len(losses):.3f}")
    seconds = time.time() - t0

    blind = drill("blind", np.random.default_rng(99))
    guess = tf.argmax(interp.net(blind.curves, training=False), axis=-1, output_type=tf.int32)
    hit = float(tf.reduce_mean(tf.cast(guess == blind.lith, tf.float32)))
    print(f"{count} sections, blind well accuracy {hit:.3f}")
    print(f"TRAIN_SECONDS {seconds:.2f}")
