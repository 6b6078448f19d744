"""Double DQN with prioritised replay on a warehouse grid world."""
import numpy as np
import tensorflow as tf
from tensorflow import keras


class Warehouse:
    MOVES = np.array([(0, 1), (0, -1), (1, 0), (-1, 0)])

    def __init__(self, size=8, seed=0):
        self.size, self.rng = size, np.random.default_rng(seed)
        self.reset()

    def observe(self):
        return np.concatenate([self.pos, self.goal, self.goal - self.pos]).astype("float32") / self.size

    def reset(self):
        self.pos, self.goal = self.rng.integers(0, self.size, (2, 2))
        self.t = 0
        return self.observe()

    def step(self, a):
        before = np.abs(self.goal - self.pos).sum()
        self.pos = np.clip(self.pos + self.MOVES[a], 0, self.size - 1)
        self.t += 1
        after = np.abs(self.goal - self.pos).sum()
        done = after == 0 or self.t >= 40
        return self.observe(), float(before - after) + (5.0 if after == 0 else 0.0), done


class Replay:
    def __init__(self, size=4000, dim=6, alpha=0.6):
        self.s = np.zeros((size, dim), "float32"); self.n = np.zeros((size, dim), "float32")
        self.a = np.zeros(size, "int32"); self.r = np.zeros(size, "float32"); self.d = np.zeros(size, "float32")
        self.p = np.zeros(size); self.alpha, self.i, self.count = alpha, 0, 0

    def add(self, s, a, r, n, d):
        i = self.i
        self.s[i], self.a[i], self.r[i], self.n[i], self.d[i] = s, a, r, n, d
        self.p[i] = self.p[:self.count].max() if self.count else 1.0
        self.i = (i + 1) % len(self.a)
        self.count = min(self.count + 1, len(self.a))

    def sample(self, k, rng):
        w = self.p[:self.count] ** self.alpha
        prob = w / w.sum()
        idx = rng.choice(self.count, k, p=prob)
        return idx, (self.s[idx], self.a[idx], self.r[idx], self.n[idx], self.d[idx], prob[idx].astype("float32"))


class Agent:
    def __init__(self):
        self.online, self.target = self.net(), self.net()
        self.target.set_weights(self.online.get_weights())
        self.opt = keras.optimizers.Adam(1e-3)
        self.eps, self.beta = 1.0, 0.4
        self.rng = np.random.default_rng(2)

    @staticmethod
    def net():
        return keras.Sequential([keras.Input((6,)), keras.layers.Dense(128, "relu"),
                                 keras.layers.Dense(128, "relu"), keras.layers.Dense(4)])

    @tf.function
    def q_values(self, s):
        return self.online(s)

    def act(self, s):
        if self.rng.random() < self.eps:
            return int(self.rng.integers(4))
        return int(np.argmax(self.q_values(s[None])))

    @tf.function
    def update(self, s, a, r, n, d, prob, count, beta):
        best = tf.argmax(self.online(n), axis=1, output_type=tf.int32)
        boot = tf.gather(self.target(n), best, batch_dims=1)
        goal = r + 0.97 * (1.0 - d) * boot
        weight = (count * prob) ** (-beta)
        weight /= tf.reduce_max(weight)
        with tf.GradientTape() as tape:
            q = tf.gather(self.online(s), a, batch_dims=1)
            loss = tf.reduce_mean(weight * tf.square(goal - q))
        grads = tape.gradient(loss, self.online.trainable_variables)
        self.opt.apply_gradients(zip(grads, self.online.trainable_variables))
        return loss, tf.abs(goal - q)

    def learn(self, replay):
        idx, batch = replay.sample(64, self.rng)
        loss, td = self.update(*batch, tf.constant(replay.count, tf.float32), self.beta)
        replay.p[idx] = td.numpy() + 1e-3
        self.beta = min(1.0, self.beta + 0.002)
        self.eps = max(0.05, self.eps * 0.98)
        return loss


def train(steps=500, learn_every=4, warmup=200):
    env, agent, replay = Warehouse(), Agent(), Replay()
    s, total, returns, updates = env.reset(), 0.0, [], 0
    for t in range(steps):
        a = agent.act(s)
        n, r, done = env.step(a)
        replay.add(s, a, r, n, float(done))
        total += r
        s = n
        if done:
            returns.append(total)
            s, total = env.reset(), 0.0
        if t >= warmup and t % learn_every == 0:
            loss = agent.learn(replay)
            updates += 1
            if updates % 25 == 0:
                agent.target.set_weights(agent.online.get_weights())
                print(f"update {updates} loss {float(loss):.3f} return {np.mean(returns[-10:]):.2f}")


if __name__ == "__main__":
    train()
