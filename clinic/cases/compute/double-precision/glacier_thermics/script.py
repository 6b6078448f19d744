"""Physics-informed network for the 1-D ice temperature profile  T_t + w(z) T_z = k T_zz."""
import time

import numpy as np
import tensorflow as tf

tf.keras.backend.set_floatx("float64")
tf.keras.utils.set_random_seed(11)

KAPPA = 0.05


def mlp(width=64, depth=4):
    inputs = tf.keras.Input((2,))
    h = inputs
    for _ in range(depth):
        h = tf.keras.layers.Dense(width, activation="tanh", kernel_initializer="glorot_normal")(h)
    return tf.keras.Model(inputs, tf.keras.layers.Dense(1)(h))


class GlacierPINN:
    def __init__(self, n_interior, n_boundary, lr):
        rng = np.random.default_rng(5)
        self.net = mlp()
        self.opt = tf.keras.optimizers.Adam(lr)
        self.zt = self.tensor(rng.uniform(0, 1, (n_interior, 2)))
        t = rng.uniform(0, 1, (n_boundary, 1))
        self.surface = self.tensor(np.hstack([np.ones_like(t), t]))
        self.surface_T = self.tensor(-0.5 + 0.2 * np.sin(2 * np.pi * t))
        self.bed = self.tensor(np.hstack([np.zeros_like(t), t]))
        z = rng.uniform(0, 1, (n_boundary, 1))
        self.initial = self.tensor(np.hstack([z, np.zeros_like(z)]))
        self.initial_T = self.tensor(-0.5 * z)

    @staticmethod
    def tensor(a):
        return tf.convert_to_tensor(a, dtype=tf.keras.backend.floatx())

    def residual(self, zt):
        z, t = zt[:, :1], zt[:, 1:]
        with tf.GradientTape() as outer:
            outer.watch(z)
            with tf.GradientTape(persistent=True) as inner:
                inner.watch([z, t])
                T = self.net(tf.concat([z, t], 1))
            T_z = inner.gradient(T, z)
            T_t = inner.gradient(T, t)
        T_zz = outer.gradient(T_z, z)
        return T_t - 0.3 * z * T_z - KAPPA * T_zz

    @tf.function
    def step(self):
        with tf.GradientTape() as tape:
            pde = tf.reduce_mean(self.residual(self.zt) ** 2)
            top = tf.reduce_mean((self.net(self.surface) - self.surface_T) ** 2)
            base = tf.reduce_mean((self.net(self.bed) - 0.0) ** 2)
            start = tf.reduce_mean((self.net(self.initial) - self.initial_T) ** 2)
            loss = pde + 10.0 * (top + base + start)
        grads = tape.gradient(loss, self.net.trainable_variables)
        self.opt.apply_gradients(zip(grads, self.net.trainable_variables))
        return loss, pde


def train(iterations=100):
    pinn = GlacierPINN(n_interior=4000, n_boundary=400, lr=1e-3)
    begin = time.perf_counter()
    for it in range(1, iterations + 1):
        loss, pde = pinn.step()
        if it % 25 == 0:
            print(f"it {it:4d}  loss {loss.numpy():.5f}  pde {pde.numpy():.5f}")
    elapsed = time.perf_counter() - begin
    profile = pinn.net(pinn.tensor(np.column_stack([np.linspace(0, 1, 5), np.full(5, 0.5)])))
    print("profile at t=0.5:", np.round(profile.numpy().ravel(), 3))
    print(f"WORK {iterations}")
    print(f"TRAIN_SECONDS {elapsed:.3f}")


if __name__ == "__main__":
    train()
