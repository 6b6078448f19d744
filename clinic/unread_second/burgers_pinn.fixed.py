"""Physics-informed network for the viscous Burgers equation."""
import keras
import numpy as np
import tensorflow as tf
from keras import layers


class BurgersSolver:
    def __init__(self, nu=0.01 / np.pi, width=40, depth=6, lr=1e-3):
        self.nu = nu
        self.net = keras.Sequential(
            [keras.Input((2,))]
            + [layers.Dense(width, activation="tanh") for _ in range(depth)]
            + [layers.Dense(1)]
        )
        self.optimizer = keras.optimizers.Adam(
            keras.optimizers.schedules.ExponentialDecay(lr, 2000, 0.9)
        )
        self.optimizer.build(self.net.trainable_variables)

    def residual(self, t, x):
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape(persistent=True) as inner:
                inner.watch([t, x])
                u = self.net(tf.concat([t, x], axis=1))
            u_x = inner.gradient(u, x)
        u_t = inner.gradient(u, t)
        u_xx = outer.gradient(u_x, x)
        return u_t + u * u_x - self.nu * u_xx

    @tf.function
    def train_step(self, t_c, x_c, tx_b, u_b):
        with tf.GradientTape() as tape:
            physics = tf.reduce_mean(tf.square(self.residual(t_c, x_c)))
            boundary = tf.reduce_mean(tf.square(self.net(tx_b) - u_b))
            loss = physics + boundary
        grads = tape.gradient(loss, self.net.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.net.trainable_variables))
        return loss


def collocation(n, seed=0):
    rng = np.random.default_rng(seed)
    t = rng.uniform(0, 1, (n, 1)).astype("float32")
    x = rng.uniform(-1, 1, (n, 1)).astype("float32")
    return tf.constant(t), tf.constant(x)


def boundary_points(n, seed=1):
    rng = np.random.default_rng(seed)
    x0 = rng.uniform(-1, 1, (n, 1))
    initial = np.hstack([np.zeros_like(x0), x0])
    t = rng.uniform(0, 1, (n, 1))
    walls = np.hstack([t, np.where(rng.random((n, 1)) < 0.5, -1.0, 1.0)])
    points = np.vstack([initial, walls]).astype("float32")
    values = np.vstack([-np.sin(np.pi * x0), np.zeros_like(t)]).astype("float32")
    return tf.constant(points), tf.constant(values)


def main(iterations=6000):
    solver = BurgersSolver()
    t_c, x_c = collocation(4096)
    tx_b, u_b = boundary_points(256)
    for it in range(iterations):
        loss = solver.train_step(t_c, x_c, tx_b, u_b)
        if it % 500 == 0:
            print(f"it {it:5d} loss {float(loss):.3e}")


if __name__ == "__main__":
    main()
