"""Q-learning for a slot car that has to brake before curves."""
import argparse
import random
import time

import numpy as np
import keras
import tensorflow as tf


class Track:
    """Twelve sensors, three throttle positions."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.curve = self.rng.random(400) < 0.3
        self.reset()

    def reset(self):
        self.pos, self.speed = 0, 1.0
        return self.sense()

    def sense(self):
        ahead = self.curve[(self.pos + np.arange(11)) % 400]
        return [self.speed] + [float(c) for c in ahead]

    def step(self, throttle):
        self.speed = max(0.5, min(4.0, self.speed + (throttle - 1) * 0.5))
        self.pos += int(round(self.speed))
        off = bool(self.curve[self.pos % 400]) and self.speed > 2.5
        reward = -5.0 if off else self.speed * 0.25
        return self.sense(), reward, off or self.pos > 400


class Memory:
    def __init__(self):
        self.rows = []

    def add(self, state, action, reward, after, done):
        self.rows.append(state + [float(action), reward] + after + [float(done)])

    def __len__(self):
        return len(self.rows)

    def draw(self, n):
        table = np.array(self.rows, dtype=np.float32)
        pick = np.random.randint(0, len(table), n)
        part = table[pick]
        return part[:, :12], part[:, 12].astype(np.int32), part[:, 13], part[:, 14:26], part[:, 26]


def make_net():
    return keras.Sequential([
        keras.Input((12,)),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dense(3),
    ])


class Agent:
    def __init__(self, gamma):
        self.net, self.target = make_net(), make_net()
        self.target.set_weights(self.net.get_weights())
        self.opt = keras.optimizers.Adam(1e-3)
        self.opt.build(self.net.trainable_variables)
        self.gamma = gamma

    @tf.function(reduce_retracing=True)
    def values(self, s):
        return self.net(s)

    @tf.function
    def learn(self, s, a, r, s2, done):
        goal = r + self.gamma * (1.0 - done) * tf.reduce_max(self.target(s2), axis=1)
        with tf.GradientTape() as tape:
            q = tf.gather(self.net(s), a, axis=1, batch_dims=1)
            loss = tf.reduce_mean(tf.square(goal - q))
        self.opt.apply(tape.gradient(loss, self.net.trainable_variables))
        return loss

    def act(self, state, eps):
        if random.random() < eps:
            return random.randrange(3)
        return int(np.argmax(self.values(np.array([state], np.float32))))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=2400)
    ap.add_argument("--batch", type=int, default=64)
    ap.add_argument("--gamma", type=float, default=0.97)
    args = ap.parse_args()
    keras.utils.set_random_seed(3)

    env, memory, agent = Track(1), Memory(), Agent(args.gamma)
    state, learned = env.reset(), 0
    start = time.time()
    for step in range(args.steps):
        action = agent.act(state, max(0.05, 1.0 - step / 1200))
        after, reward, done = env.step(action)
        memory.add(state, action, reward, after, done)
        state = env.reset() if done else after
        if len(memory) >= args.batch:
            agent.learn(*memory.draw(args.batch))
            learned += 1
        if step % 300 == 0:
            agent.target.set_weights(agent.net.get_weights())
            print("step", step, "rows", len(memory), flush=True)
    print("WORK", learned)
    print("TRAIN_SECONDS %.2f" % (time.time() - start))


if __name__ == "__main__":
    main()
