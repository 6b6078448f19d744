import argparse
import time
from collections import deque

import keras
import numpy as np
import tensorflow as tf
from keras import layers


class DepotEnv:
    """A depot with several docks; an action sends the next parcel to one dock."""

    def __init__(self, docks=24, horizon=200, seed=0):
        self.docks, self.horizon = docks, horizon
        self.rng = np.random.default_rng(seed)
        self.reset()

    @property
    def state_size(self):
        return 4 * self.docks

    def reset(self):
        self.queue = np.zeros(self.docks, np.float32)
        self.distance = self.rng.uniform(0.2, 1.0, self.docks).astype(np.float32)
        self.parcel = self.rng.random(self.docks, dtype=np.float32)
        self.t = 0
        return self.observe()

    def observe(self):
        clock = np.full(self.docks, self.t / self.horizon, np.float32)
        return np.concatenate([self.queue, self.distance, self.parcel, clock])

    def step(self, dock):
        cost = self.queue[dock] + self.distance[dock] * self.parcel[dock]
        self.queue[dock] += 0.3
        self.queue = np.maximum(self.queue - 0.02, 0.0)
        self.parcel = self.rng.random(self.docks, dtype=np.float32)
        self.t += 1
        return self.observe(), -float(cost), self.t >= self.horizon


class Replay:
    def __init__(self, capacity, seed):
        self.items = deque(maxlen=capacity)
        self.rng = np.random.default_rng(seed)

    def add(self, *transition):
        self.items.append(transition)

    def sample(self, n):
        rows = [self.items[i] for i in self.rng.integers(0, len(self.items), n)]
        s, a, r, s2, done = zip(*rows)
        return (np.stack(s), np.array(a, np.int32), np.array(r, np.float32),
                np.stack(s2), np.array(done, np.float32))


def q_network(inputs, actions, width):
    return keras.Sequential([
        layers.Input((inputs,)),
        layers.Dense(width, activation="relu"),
        layers.Dense(width, activation="relu"),
        layers.Dense(width, activation="relu"),
        layers.Dense(actions),
    ])


class DispatchAgent:
    def __init__(self, env, args):
        self.env, self.args = env, args
        self.online = q_network(env.state_size, env.docks, args.width)
        self.target = q_network(env.state_size, env.docks, args.width)
        self.optimizer = keras.optimizers.SGD(1e-3)
        self.memory = Replay(5000, args.seed)
        self.rng = np.random.default_rng(args.seed)
        self.sync()

    def sync(self):
        self.target.set_weights(self.online.get_weights())

    def act(self, state, epsilon):
        if self.rng.random() < epsilon:
            return int(self.rng.integers(self.env.docks))
        values = self.online.predict(state[np.newaxis], verbose=0)
        return int(np.argmax(values[0]))

    @tf.function
    def learn(self, s, a, r, s2, done):
        best = tf.reduce_max(self.target(s2, training=False), axis=1)
        goal = r + self.args.gamma * (1.0 - done) * best
        with tf.GradientTape() as tape:
            q = tf.gather(self.online(s, training=True), a, batch_dims=1)
            loss = tf.reduce_mean(tf.square(goal - q))
        weights = self.online.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
        return loss

    def fill(self, n):
        state = self.env.reset()
        for _ in range(n):
            action = int(self.rng.integers(self.env.docks))
            nxt, reward, done = self.env.step(action)
            self.memory.add(state, action, reward, nxt, done)
            state = self.env.reset() if done else nxt

    def train(self):
        state, score = self.env.reset(), 0.0
        for n in range(self.args.decisions):
            action = self.act(state, epsilon=max(0.05, 0.2 - n / 200))
            nxt, reward, done = self.env.step(action)
            self.memory.add(state, action, reward, nxt, done)
            score += reward
            state = self.env.reset() if done else nxt
            if n % 2 == 1:
                self.learn(*self.memory.sample(self.args.batch))
            if n % 50 == 49:
                self.sync()
                print(f"decision {n + 1}: mean reward {score / (n + 1):.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--decisions", type=int, default=180)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--gamma", type=float, default=0.95)
    parser.add_argument("--seed", type=int, default=4)
    args = parser.parse_args()
    keras.utils.set_random_seed(args.seed)
    agent = DispatchAgent(DepotEnv(seed=args.seed), args)
    agent.fill(2000)
    begin = time.perf_counter()
    agent.train()
    spent = time.perf_counter() - begin
    print("WORK", args.decisions)
    print(f"TRAIN_SECONDS {spent:.3f}")
