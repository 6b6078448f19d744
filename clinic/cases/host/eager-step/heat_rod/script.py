# Physics-informed network for the 1-D heat equation  u_t = alpha * u_xx
# on x in [0, 1], t in [0, 1], u(x, 0) = sin(pi x), u(0, t) = u(1, t) = 0.
import argparse
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers


class HeatRod:
    def __init__(self, width, depth, lr, alpha=0.1):
        self.alpha = alpha
        self.net = keras.Sequential(
            [layers.Input((2,))]
            + [layers.Dense(width, activation="tanh") for _ in range(depth)]
            + [layers.Dense(1)]
        )
        self.opt = keras.optimizers.Adam(lr)
        self.opt.build(self.net.trainable_variables)
        self.rng = np.random.default_rng(0)

    def sample(self, n):
        u = lambda *s: self.rng.uniform(size=s).astype("float32")
        inside = u(n, 2)
        t0 = np.concatenate([u(n // 4, 1), np.zeros((n // 4, 1), "float32")], 1)
        side = np.concatenate([np.round(u(n // 4, 1)), u(n // 4, 1)], 1)
        return tf.constant(inside), tf.constant(t0), tf.constant(side)

    def residual(self, xt):
        x, t = xt[:, :1], xt[:, 1:]
        with tf.GradientTape() as second:
            second.watch(x)
            with tf.GradientTape(persistent=True) as first:
                first.watch([x, t])
                u = self.net(tf.concat([x, t], 1))
            u_x = first.gradient(u, x)
            u_t = first.gradient(u, t)
        return u_t - self.alpha * second.gradient(u_x, x)

    def losses(self, inside, t0, side):
        pde = tf.reduce_mean(tf.square(self.residual(inside)))
        start = tf.reduce_mean(tf.square(self.net(t0) - tf.sin(np.pi * t0[:, :1])))
        walls = tf.reduce_mean(tf.square(self.net(side)))
        return pde, start, walls

    def update(self, inside, t0, side):
        with tf.GradientTape() as tape:
            pde, start, walls = self.losses(inside, t0, side)
            total = pde + 10.0 * start + 10.0 * walls
        grads = tape.gradient(total, self.net.trainable_variables)
        self.opt.apply_gradients(zip(grads, self.net.trainable_variables))
        return total

    def solve(self, iterations, points, log_every):
        total = None
        for it in range(iterations):
            total = self.update(*self.sample(points))
            if it % log_every == 0:
                print(f"{it:5d}  loss {float(total):.5f}")
        return total


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--iterations", type=int, default=170)
    ap.add_argument("--points", type=int, default=512)
    ap.add_argument("--width", type=int, default=24)
    ap.add_argument("--depth", type=int, default=4)
    ap.add_argument("--lr", type=float, default=2e-3)
    args = ap.parse_args()
    rod = HeatRod(args.width, args.depth, args.lr)
    begin = time.time()
    final = rod.solve(args.iterations, args.points, log_every=50)
    grid = np.stack(np.meshgrid(np.linspace(0, 1, 21), np.linspace(0, 1, 11)), -1)
    u = rod.net(tf.constant(grid.reshape(-1, 2), tf.float32)).numpy().ravel()
    exact = np.exp(-rod.alpha * np.pi**2 * grid[..., 1]) * np.sin(np.pi * grid[..., 0])
    print("final %.5f, max error %.3f" % (float(final), np.abs(u - exact.ravel()).max()))
    print("TRAIN_SECONDS %.2f" % (time.time() - begin))


if __name__ == "__main__":
    main()
