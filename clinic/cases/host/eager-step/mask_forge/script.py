"""A little GAN that forges theatre masks (24x24), with options kept in one dict."""
import time

import numpy as np
import tensorflow as tf

OPTIONS = dict(z=32, side=24, batch=32, rounds=220, seed=13, checks=dict(shapes=True, trace=False))


def masks(n, side, seed):
    g = np.random.default_rng(seed)
    yy, xx = np.mgrid[-1:1:side * 1j, -1:1:side * 1j]
    out = np.empty((n, side, side, 1), "float32")
    for i in range(n):
        a, b = g.uniform(.5, .9, 2)
        out[i, ..., 0] = ((xx / a) ** 2 + (yy / b) ** 2 < 1) * 1.0 - ((xx ** 2 * 6 + (yy - .3) ** 2 * 30) < .4)
    return out * 2 - 1


def prepare(options):
    tf.keras.utils.set_random_seed(options["seed"])
    apply_checks(options["checks"])


def apply_checks(checks):
    if checks["trace"]:
        tf.debugging.set_log_device_placement(True)
    if checks["shapes"]:
        strict_shapes()


def strict_shapes():
    tf.debugging.disable_traceback_filtering()
    tf.config.run_functions_eagerly(True)


class Forge:
    def __init__(self, o):
        L = tf.keras.layers
        self.o = o
        self.gen = tf.keras.Sequential([L.Input((o["z"],)), L.Dense(6 * 6 * 16), L.LeakyReLU(), L.Reshape((6, 6, 16)),
                                        L.Conv2DTranspose(8, 4, 2, "same"), L.LeakyReLU(),
                                        L.Conv2DTranspose(1, 4, 2, "same", activation="tanh")])
        self.dis = tf.keras.Sequential([L.Input((o["side"], o["side"], 1)), L.Conv2D(8, 4, 2), L.LeakyReLU(),
                                        L.Conv2D(16, 4, 2), L.LeakyReLU(), L.Flatten(), L.Dense(1)])
        self.go, self.do = tf.keras.optimizers.Adam(2e-4, beta_1=.5), tf.keras.optimizers.Adam(2e-4, beta_1=.5)
        self.bce = tf.keras.losses.BinaryCrossentropy(from_logits=True)

    @tf.function
    def round(self, real):
        z = tf.random.normal((self.o["batch"], self.o["z"]))
        with tf.GradientTape() as gt, tf.GradientTape() as dt:
            fake = self.gen(z, training=True)
            r, f = self.dis(real, training=True), self.dis(fake, training=True)
            gl = self.bce(tf.ones_like(f), f)
            dl = self.bce(tf.ones_like(r), r) + self.bce(tf.zeros_like(f), f)
        self.go.apply_gradients(zip(gt.gradient(gl, self.gen.trainable_variables), self.gen.trainable_variables))
        self.do.apply_gradients(zip(dt.gradient(dl, self.dis.trainable_variables), self.dis.trainable_variables))
        return gl, dl


prepare(OPTIONS)
forge = Forge(OPTIONS)
real = tf.constant(masks(OPTIONS["batch"] * 10, OPTIONS["side"], 2))
parts = tf.split(real, 10)
t0 = time.perf_counter()
for i in range(OPTIONS["rounds"]):
    gl, dl = forge.round(parts[i % 10])
    if i % 55 == 54:
        print(i + 1, f"gen {gl.numpy():.3f} dis {dl.numpy():.3f}")
print(f"{OPTIONS['rounds']} rounds, {time.perf_counter() - t0:.2f} s")
