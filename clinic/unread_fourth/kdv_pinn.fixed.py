"""Physics-informed network for the Korteweg-de Vries equation u_t + 6 u u_x + u_xxx = 0."""
from dataclasses import dataclass

import keras
import tensorflow as tf


@dataclass(frozen=True)
class Config:
    collocation: int = 8192
    boundary: int = 1024
    width: int = 128
    depth: int = 5
    steps: int = 15000
    log_every: int = 500
    x_max: float = 10.0
    t_max: float = 1.0
    traced: tuple = ("train_step", "residual_norm")


def soliton(x, t, c=4.0, x0=-3.0):
    return 0.5 * c / tf.square(tf.cosh(0.5 * c ** 0.5 * (x - c * t - x0)))


class KdVSolver:
    def __init__(self, cfg):
        self.cfg = cfg
        self.net = keras.Sequential(
            [keras.layers.Input((2,))]
            + [keras.layers.Dense(cfg.width, activation="tanh") for _ in range(cfg.depth)]
            + [keras.layers.Dense(1)])
        schedule = keras.optimizers.schedules.ExponentialDecay(1e-3, 3000, 0.7)
        self.opt = keras.optimizers.Adam(schedule)
        self.opt.build(self.net.trainable_variables)
        for name in cfg.traced:
            setattr(self, name, tf.function(getattr(self, name)))

    def sample(self, n):
        x = tf.random.uniform((n, 1), -self.cfg.x_max, self.cfg.x_max)
        t = tf.random.uniform((n, 1), 0.0, self.cfg.t_max)
        return x, t

    def field(self, x, t):
        return self.net(tf.concat([x / self.cfg.x_max, t / self.cfg.t_max], axis=1))

    def residual(self, x, t):
        with tf.GradientTape() as t3:
            t3.watch(x)
            with tf.GradientTape() as t2:
                t2.watch(x)
                with tf.GradientTape(persistent=True) as t1:
                    t1.watch([x, t])
                    u = self.field(x, t)
                u_x, u_t = t1.gradient(u, x), t1.gradient(u, t)
            u_xx = t2.gradient(u_x, x)
        u_xxx = t3.gradient(u_xx, x)
        return u_t + 6.0 * u * u_x + u_xxx

    def residual_norm(self, n):
        return tf.sqrt(tf.reduce_mean(tf.square(self.residual(*self.sample(n)))))

    def train_step(self):
        x, t = self.sample(self.cfg.collocation)
        xi, _ = self.sample(self.cfg.boundary)
        _, tb = self.sample(self.cfg.boundary)
        edge = tf.fill(tf.shape(tb), self.cfg.x_max)
        with tf.GradientTape() as tape:
            pde = tf.reduce_mean(tf.square(self.residual(x, t)))
            start = tf.zeros_like(xi)
            ic = tf.reduce_mean(tf.square(self.field(xi, start) - soliton(xi, start)))
            bc = tf.reduce_mean(tf.square(self.field(edge, tb) - self.field(-edge, tb)))
            loss = pde + 20.0 * ic + bc
        weights = self.net.trainable_variables
        grads = tape.gradient(loss, weights)
        self.opt.apply_gradients(zip(grads, weights))
        return loss, ic

    def solve(self):
        for it in range(1, self.cfg.steps + 1):
            loss, ic = self.train_step()
            if it % self.cfg.log_every == 0:
                norm = self.residual_norm(4096)
                print(f"{it:6d} loss {float(loss):.3e} ic {float(ic):.3e} res {float(norm):.3e}")

    def error(self, nx=400, t=0.5):
        x = tf.reshape(tf.linspace(-self.cfg.x_max, self.cfg.x_max, nx), (-1, 1))
        tt = tf.fill((nx, 1), t)
        diff = self.field(x, tt) - soliton(x, tt)
        return float(tf.reduce_max(tf.abs(diff)))


if __name__ == "__main__":
    keras.utils.set_random_seed(42)
    solver = KdVSolver(Config())
    solver.solve()
    print("max error at t=0.5:", solver.error())
    solver.net.save("kdv.keras")
