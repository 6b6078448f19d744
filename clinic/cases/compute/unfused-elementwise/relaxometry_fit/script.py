import os
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import time
import argparse
import numpy as np
import tensorflow as tf


def phantom(side, echoes, rng):
    yy, xx = np.mgrid[-1:1:side * 1j, -1:1:side * 1j]
    r = np.hypot(xx, yy)
    rho = np.where(r < 0.9, 1.0 + 0.3 * np.cos(4 * xx), 0.05)
    t2 = np.where(r < 0.5, 80.0, 45.0) + 5 * yy
    frac = 0.3 + 0.2 * (xx > 0)
    e = echoes[:, None, None]
    s = rho * (frac * np.exp(-e / (0.25 * t2)) + (1 - frac) * np.exp(-e / t2))
    return np.sqrt((s + 0.01 * rng.normal(size=s.shape)) ** 2 + (0.01 * rng.normal(size=s.shape)) ** 2)


class BiExponential(tf.Module):
    """Per-voxel two-compartment decay with a Rician noise floor."""

    def __init__(self, side):
        super().__init__()
        self.log_rho = tf.Variable(tf.zeros((side, side)))
        self.log_short = tf.Variable(tf.fill((side, side), 2.5))
        self.log_long = tf.Variable(tf.fill((side, side), 4.0))
        self.mix = tf.Variable(tf.zeros((side, side)))
        self.floor = tf.Variable(0.01)

    def __call__(self, te):
        te = te[:, None, None]
        f = tf.sigmoid(self.mix)
        fast = tf.exp(-te * tf.exp(-self.log_short))
        slow = tf.exp(-te * tf.exp(-self.log_long))
        s = tf.exp(self.log_rho) * (f * fast + (1.0 - f) * slow)
        return tf.sqrt(s * s + self.floor * self.floor)


class Fitter:
    def __init__(self, model, lr):
        self.model, self.lr = model, lr
        self.m = [tf.Variable(tf.zeros_like(v)) for v in model.trainable_variables]
        self.v = [tf.Variable(tf.zeros_like(v)) for v in model.trainable_variables]
        self.t = tf.Variable(0.0)

    @tf.function
    def step(self, te, signal):
        with tf.GradientTape() as tape:
            resid = self.model(te) - signal
            robust = tf.reduce_mean(tf.math.log1p(tf.square(resid / 0.05)))
            prior = tf.reduce_mean(tf.square(tf.nn.relu(self.model.log_short - self.model.log_long + 0.5)))
            loss = robust + 0.1 * prior
        grads = tape.gradient(loss, self.model.trainable_variables)
        self.t.assign_add(1.0)
        scale = self.lr * tf.sqrt(1 - 0.999 ** self.t) / (1 - 0.9 ** self.t)
        for p, m, v, g in zip(self.model.trainable_variables, self.m, self.v, grads):
            m.assign(0.9 * m + 0.1 * g)
            v.assign(0.999 * v + 0.001 * g * g)
            p.assign_sub(scale * m / (tf.sqrt(v) + 1e-8))
        return loss


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--side", type=int, default=512)
    ap.add_argument("--iters", type=int, default=90)
    a = ap.parse_args()
    te = np.linspace(6, 180, 16).astype("float32")
    image = phantom(a.side, te, np.random.default_rng(1)).astype("float32")
    fit = Fitter(BiExponential(a.side), 0.02)
    te, image = tf.constant(te), tf.constant(image)
    print("start", float(fit.step(te, image)))
    t0 = time.perf_counter()
    for i in range(a.iters):
        loss = fit.step(te, image)
        if i % 25 == 0:
            tf.print("iter", i, "loss", loss)
    fit.t.numpy()
    print("WORK", a.iters)
    print("TRAIN_SECONDS %.3f" % (time.perf_counter() - t0))


main()
