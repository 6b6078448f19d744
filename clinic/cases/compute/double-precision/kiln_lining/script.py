"""Surrogate for the temperature field in the lining of a cement kiln, fitted to a finite-difference table."""
import time

import numpy as np
import tensorflow as tf


def lining_table(n, rng):
    """Depth, time, burner power, rotation, feed rate, ambient -> temperature and heat flux."""
    x = rng.uniform(-1.0, 1.0, size=(n, 6))
    front = np.exp(-3.0 * (x[:, 0] + 1.0) / (1.2 + x[:, 1]))
    temperature = front * (1.0 + 0.6 * x[:, 2]) + 0.1 * np.sin(4 * x[:, 3]) + 0.05 * x[:, 5]
    flux = -front * (0.8 + 0.3 * x[:, 4])
    return x, np.stack([temperature, flux], axis=1)


class Layer(tf.Module):
    def __init__(self, fan_in, fan_out, rng, act=None, name=None):
        super().__init__(name=name)
        limit = np.sqrt(6.0 / (fan_in + fan_out))
        self.w = tf.Variable(rng.uniform(-limit, limit, size=(fan_in, fan_out)), name="w")
        self.b = tf.Variable(np.zeros(fan_out), name="b")
        self.act = act

    def __call__(self, x):
        y = tf.matmul(x, self.w) + self.b
        return y if self.act is None else self.act(y)


class Surrogate(tf.Module):
    def __init__(self, sizes, rng):
        super().__init__(name="surrogate")
        hidden = [Layer(a, b, rng, tf.tanh) for a, b in zip(sizes[:-2], sizes[1:-1])]
        self.layers = hidden + [Layer(sizes[-2], sizes[-1], rng)]

    def __call__(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class Momentum:
    def __init__(self, variables, rate, beta=0.9):
        self.variables, self.rate, self.beta = list(variables), rate, beta
        self.speed = [tf.Variable(tf.zeros_like(v), trainable=False) for v in self.variables]

    def apply(self, grads):
        for v, s, g in zip(self.variables, self.speed, grads):
            s.assign(self.beta * s + g)
            v.assign_sub(self.rate * s)


def train(x, y, steps, batch, rng):
    net = Surrogate([x.shape[1], 256, 256, 256, y.shape[1]], rng)
    opt = Momentum(net.trainable_variables, rate=0.01)

    @tf.function
    def step(xb, yb):
        with tf.GradientTape() as tape:
            error = net(xb) - yb
            loss = tf.reduce_mean(tf.square(error))
        opt.apply(tape.gradient(loss, net.trainable_variables))
        return loss

    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(batch, drop_remainder=True)
    data = iter(data.cache().repeat().prefetch(2))
    loss = step(*next(data))
    began = time.perf_counter()
    for i in range(1, steps + 1):
        loss = step(*next(data))
        if i % 100 == 0:
            print(f"step {i:4d}  mse {float(loss):.5f}")
    return time.perf_counter() - began


def main():
    rng = np.random.default_rng(5)
    x, y = lining_table(40_960, rng)
    steps, batch = 450, 1024
    seconds = train(x, y, steps, batch, rng)
    print("WORK", steps * batch)
    print(f"TRAIN_SECONDS {seconds:.3f}")


if __name__ == "__main__":
    main()
