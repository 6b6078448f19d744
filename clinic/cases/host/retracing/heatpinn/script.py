"""Physics-informed network for transient conduction in a rod, with an annealed residual weight."""
import argparse
import time

import numpy as np
import tensorflow as tf
import keras


def parse_args():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=320)
    p.add_argument("--collocation", type=int, default=2048)
    p.add_argument("--boundary", type=int, default=256)
    p.add_argument("--diffusivity", type=float, default=0.07)
    p.add_argument("--width", type=int, default=64)
    p.add_argument("--depth", type=int, default=4)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--anneal-every", type=int, default=20)
    p.add_argument("--seed", type=int, default=11)
    return p.parse_args()


class Sampler:
    """Latin-hypercube-like points of the space-time domain [-1, 1] x [0, 1]."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def interior(self, n):
        x = (self.rng.permutation(n) + self.rng.random(n)) / n * 2 - 1
        t = (self.rng.permutation(n) + self.rng.random(n)) / n
        return np.stack([x, t], axis=1).astype("float32")

    def initial(self, n):
        x = self.rng.uniform(-1, 1, n)
        pts = np.stack([x, np.zeros(n)], axis=1).astype("float32")
        return pts, (-np.sin(np.pi * x))[:, None].astype("float32")

    def walls(self, n):
        x = self.rng.choice([-1.0, 1.0], n)
        return np.stack([x, self.rng.random(n)], axis=1).astype("float32")


class HeatPINN:
    def __init__(self, args):
        self.kappa = args.diffusivity
        self.net = keras.Sequential(
            [keras.Input((2,))]
            + [keras.layers.Dense(args.width, activation="tanh") for _ in range(args.depth)]
            + [keras.layers.Dense(1)]
        )
        self.opt = keras.optimizers.Adam(args.lr)
        self.opt.build(self.net.trainable_variables)

    def residual(self, pts):
        x, t = pts[:, :1], pts[:, 1:]
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape(persistent=True) as inner:
                inner.watch([x, t])
                u = self.net(tf.concat([x, t], axis=1))
            u_x = inner.gradient(u, x)
            u_t = inner.gradient(u, t)
        u_xx = outer.gradient(u_x, x)
        return u_t - self.kappa * u_xx

    @tf.function
    def step(self, pts, ic_pts, ic_u, wall_pts, weight):
        with tf.GradientTape() as tape:
            pde = tf.reduce_mean(tf.square(self.residual(pts)))
            ic = tf.reduce_mean(tf.square(self.net(ic_pts) - ic_u))
            bc = tf.reduce_mean(tf.square(self.net(wall_pts)))
            loss = weight * pde + ic + bc
        grads = tape.gradient(loss, self.net.trainable_variables)
        self.opt.apply_gradients(zip(grads, self.net.trainable_variables))
        return pde, ic, bc


def residual_weight(step, every):
    return 0.1 + 0.9 * (1.0 - np.exp(-(step // every) / 6.0)).item()


def main():
    args = parse_args()
    keras.utils.set_random_seed(args.seed)
    sampler = Sampler(args.seed)
    pinn = HeatPINN(args)

    begin = time.perf_counter()
    for step in range(args.steps):
        ic_pts, ic_u = sampler.initial(args.boundary)
        weight = residual_weight(step, args.anneal_every)
        pde, ic, bc = pinn.step(
            tf.constant(sampler.interior(args.collocation)),
            tf.constant(ic_pts),
            tf.constant(ic_u),
            tf.constant(sampler.walls(args.boundary)),
            weight,
        )
        if step % 80 == 79:
            print(f"step {step + 1}: pde {pde:.4e} ic {ic:.4e} bc {bc:.4e} (weight {weight:.3f})")
    elapsed = time.perf_counter() - begin

    x = np.linspace(-1, 1, 101, dtype="float32")
    t = np.full_like(x, 0.5)
    exact = -np.sin(np.pi * x) * np.exp(-args.diffusivity * np.pi ** 2 * 0.5)
    guess = pinn.net(np.stack([x, t], axis=1)).numpy()[:, 0]
    print("relative L2 at t=0.5:", np.linalg.norm(guess - exact) / np.linalg.norm(exact))
    print("WORK", args.steps)
    print("TRAIN_SECONDS %.3f" % elapsed)


if __name__ == "__main__":
    main()
