"""Physics-informed network for Burgers' equation u_t + u u_x = nu u_xx."""
import numpy as np
import tensorflow as tf

NU = 0.01 / np.pi
N_COLLOCATION = 4096
N_BOUNDARY = 256
ITERATIONS = 10_000


class BurgersNet(tf.keras.Model):
    def __init__(self, width=40, depth=6):
        super().__init__()
        self.hidden = [tf.keras.layers.Dense(width, activation="tanh") for _ in range(depth)]
        self.out = tf.keras.layers.Dense(1)

    def call(self, xt):
        h = xt
        for layer in self.hidden:
            h = layer(h)
        return self.out(h)


class PinnSolver:
    def __init__(self, model, lr=1e-3):
        self.model = model
        self.model(tf.zeros((1, 2)))
        self.opt = tf.keras.optimizers.Adam(lr)
        self.opt.build(self.model.trainable_variables)

    def residual(self, x, t):
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape(persistent=True) as inner:
                inner.watch([x, t])
                u = self.model(tf.concat([x, t], axis=1))
            u_x = inner.gradient(u, x)
            u_t = inner.gradient(u, t)
        u_xx = outer.gradient(u_x, x)
        return u_t + u * u_x - NU * u_xx

    @tf.function
    def train_step(self, x, t, xb, tb, ub):
        with tf.GradientTape() as tape:
            f = self.residual(x, t)
            pred = self.model(tf.concat([xb, tb], axis=1))
            loss_f = tf.reduce_mean(tf.square(f))
            loss_b = tf.reduce_mean(tf.square(pred - ub))
            loss = loss_f + loss_b
        grads = tape.gradient(loss, self.model.trainable_variables)
        self.opt.apply_gradients(zip(grads, self.model.trainable_variables))
        return loss

    def solve(self, points, iterations):
        for it in range(iterations):
            loss = self.train_step(*points)
            if it % 500 == 0:
                print(f"it {it:6d}  loss {float(loss):.4e}")


def sample_points():
    rng = np.random.default_rng(0)
    col = lambda a: tf.constant(a.reshape(-1, 1), tf.float32)
    x = rng.uniform(-1, 1, N_COLLOCATION)
    t = rng.uniform(0, 1, N_COLLOCATION)
    x0 = rng.uniform(-1, 1, N_BOUNDARY)
    u0 = -np.sin(np.pi * x0)
    side = rng.choice([-1.0, 1.0], N_BOUNDARY)
    ts = rng.uniform(0, 1, N_BOUNDARY)
    xb = np.concatenate([x0, side])
    tb = np.concatenate([np.zeros(N_BOUNDARY), ts])
    ub = np.concatenate([u0, np.zeros(N_BOUNDARY)])
    return col(x), col(t), col(xb), col(tb), col(ub)


if __name__ == "__main__":
    tf.keras.utils.set_random_seed(1234)
    PinnSolver(BurgersNet()).solve(sample_points(), ITERATIONS)
