"""Physics-informed network: deflection of a vibrating string, u_tt = c^2 u_xx."""
import time
import numpy as np
import tensorflow as tf

C = 1.0
LAYERS = [2, 96, 96, 96, 1]


class Net(tf.Module):
    def __init__(self, sizes, seed=0):
        super().__init__()
        rng = np.random.default_rng(seed)
        self.w, self.b = [], []
        for fan_in, fan_out in zip(sizes[:-1], sizes[1:]):
            limit = np.sqrt(6.0 / (fan_in + fan_out))
            self.w.append(tf.Variable(rng.uniform(-limit, limit, (fan_in, fan_out))))
            self.b.append(tf.Variable(np.zeros(fan_out)))

    def __call__(self, xt):
        h = xt
        for w, b in zip(self.w[:-1], self.b[:-1]):
            h = tf.tanh(h @ w + b)
        return h @ self.w[-1] + self.b[-1]


class Adam(tf.Module):
    def __init__(self, variables, lr=1e-3):
        super().__init__()
        self.m = [tf.Variable(tf.zeros_like(v)) for v in variables]
        self.v = [tf.Variable(tf.zeros_like(v)) for v in variables]
        self.lr = lr

    def apply(self, grads, variables):
        for g, p, m, v in zip(grads, variables, self.m, self.v):
            m.assign(0.9 * m + 0.1 * g)
            v.assign(0.999 * v + 0.001 * g * g)
            p.assign_sub(self.lr * m / (tf.sqrt(v) + 1e-8))


def points(n, rng):
    inside = rng.uniform(0, 1, (n, 2))
    edge = rng.uniform(0, 1, (n // 8, 2))
    edge[: n // 16, 0] = 0.0
    edge[n // 16:, 0] = 1.0
    start = np.stack([rng.uniform(0, 1, n // 8), np.zeros(n // 8)], 1)
    return [tf.constant(a) for a in (inside, edge, start)]


net = Net(LAYERS)
opt = Adam(net.trainable_variables)


@tf.function
def step(inside, edge, start):
    x, t = inside[:, :1], inside[:, 1:]
    with tf.GradientTape() as outer:
        with tf.GradientTape(persistent=True) as second:
            second.watch([x, t])
            with tf.GradientTape() as first:
                first.watch([x, t])
                u = net(tf.concat([x, t], 1))
            u_x, u_t = first.gradient(u, [x, t])
        u_xx = second.gradient(u_x, x)
        u_tt = second.gradient(u_t, t)
        physics = tf.reduce_mean(tf.square(u_tt - C ** 2 * u_xx))
        border = tf.reduce_mean(tf.square(net(edge)))
        initial = tf.reduce_mean(tf.square(net(start) - tf.sin(np.pi * start[:, :1])))
        loss = physics + 10.0 * border + 10.0 * initial
    grads = outer.gradient(loss, net.trainable_variables)
    opt.apply(grads, net.trainable_variables)
    return loss


def main(steps=130, n=2000):
    batch = points(n, np.random.default_rng(1))
    begin = time.time()
    for i in range(steps):
        loss = step(*batch)
        if i % 40 == 0:
            print(f"{i:5d}  {float(loss):.5f}")
    print("WORK", steps)
    print(f"TRAIN_SECONDS {time.time() - begin:.2f}")


main()
