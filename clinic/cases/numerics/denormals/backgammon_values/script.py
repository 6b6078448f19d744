"""TD(lambda) learning of a position value from sparse board features, with eligibility traces."""
import time

import numpy as np
import tensorflow as tf

FEATURES, HIDDEN = 6000, 64


class RandomRace:
    """A race of pieces: the active features drift along as a game goes on."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def play(self, plies):
        start = self.rng.integers(0, FEATURES // 2)
        for ply in range(plies):
            active = start + 12 * ply + self.rng.integers(0, 60, 24)
            x = np.zeros((1, FEATURES), np.float32)
            x[0, active % FEATURES] = 1.0
            yield x
        self.outcome = float(start % 2)


class TDNet:
    def __init__(self, alpha=0.01, gamma=1.0, lam=0.7):
        self.alpha, self.gamma, self.lam = alpha, gamma, lam
        init = tf.random_normal_initializer(stddev=0.05, seed=1)
        self.w1 = tf.Variable(init((FEATURES, HIDDEN)))
        self.b1 = tf.Variable(tf.zeros(HIDDEN))
        self.w2 = tf.Variable(init((HIDDEN, 1)))
        self.params = [self.w1, self.b1, self.w2]
        self.traces = [np.zeros(p.shape, np.float32) for p in self.params]

    @tf.function
    def value_and_grad(self, x):
        with tf.GradientTape() as tape:
            h = tf.sigmoid(x @ self.w1 + self.b1)
            v = tf.sigmoid(h @ self.w2)[0, 0]
        return v, tape.gradient(v, self.params)

    def reset(self):
        for e in self.traces:
            e *= 0.5

    def learn(self, delta, grads):
        for p, e, g in zip(self.params, self.traces, grads):
            e *= self.gamma * self.lam
            e += g.numpy()
            p.assign_add(self.alpha * delta * e)


def main(games=8, plies=260):
    game, net = RandomRace(0), TDNet()
    steps, begin = 0, time.perf_counter()
    for k in range(games):
        last_v, last_g, error = None, None, 0.0
        net.reset()
        for x in game.play(plies):
            v, g = net.value_and_grad(x)
            v = float(v)
            if last_v is not None:
                net.learn(v - last_v, last_g)
                error += (v - last_v) ** 2
            last_v, last_g = v, g
            steps += 1
        net.learn(game.outcome - last_v, last_g)
        print(f"game {k}: final value {last_v:.3f}, outcome {game.outcome}, td error {error:.5f}")
    print("WORK", steps)
    print("TRAIN_SECONDS", time.perf_counter() - begin)


if __name__ == "__main__":
    main()
