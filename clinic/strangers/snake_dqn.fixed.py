# Snake with deep Q learning. Adapted from a tutorial for my AI class.
import argparse
import random
import time
from collections import deque

import numpy as np
import tensorflow as tf
import keras
from keras import layers

EMPTY, BODY, HEAD, FOOD = (0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)
MOVES = [(-1, 0), (0, 1), (1, 0), (0, -1)]


class Snake:
    def __init__(self, size=20):
        self.size = size
        self.reset()

    def reset(self):
        mid = self.size // 2
        self.body = deque([(mid, mid), (mid, mid - 1), (mid, mid - 2)])
        self.place_food()
        self.clock = 0
        return self.state()

    def place_food(self):
        while True:
            self.food = (random.randrange(self.size), random.randrange(self.size))
            if self.food not in self.body:
                return

    def state(self):
        grid = [[EMPTY] * self.size for _ in range(self.size)]
        for r, c in self.body:
            grid[r][c] = BODY
        r, c = self.body[0]
        grid[r][c] = HEAD
        r, c = self.food
        grid[r][c] = FOOD
        return np.array(grid, "float32")

    def step(self, action):
        self.clock += 1
        dr, dc = MOVES[action]
        head = (self.body[0][0] + dr, self.body[0][1] + dc)
        outside = not (0 <= head[0] < self.size and 0 <= head[1] < self.size)
        if outside or head in self.body or self.clock > 200:
            return self.state(), -1.0, True
        self.body.appendleft(head)
        if head == self.food:
            self.place_food()
            return self.state(), 1.0, False
        self.body.pop()
        return self.state(), -0.01, False


def q_network(size):
    return keras.Sequential([
        layers.Input((size, size, 3)),
        layers.Conv2D(16, 3, padding="same", activation="relu"),
        layers.Conv2D(32, 3, strides=2, padding="same", activation="relu"),
        layers.Flatten(),
        layers.Dense(64, activation="relu"),
        layers.Dense(len(MOVES)),
    ])


class Agent:
    def __init__(self, size, args):
        self.args = args
        self.online, self.target = q_network(size), q_network(size)
        self.target.set_weights(self.online.get_weights())
        self.opt = keras.optimizers.Adam(args.lr)
        self.opt.build(self.online.trainable_variables)
        self.memory = deque(maxlen=5000)
        self.best_action = tf.function(lambda s: tf.argmax(self.online(s)[0]))

    def act(self, state, eps):
        if random.random() < eps:
            return random.randrange(len(MOVES))
        return int(self.best_action(tf.constant(state[None])))

    @tf.function
    def learn(self, s, a, r, s2, done):
        best = tf.reduce_max(self.target(s2), -1)
        goal = r + self.args.gamma * best * (1.0 - done)
        with tf.GradientTape() as tape:
            q = tf.reduce_sum(self.online(s) * tf.one_hot(a, len(MOVES)), -1)
            loss = tf.reduce_mean(tf.square(goal - q))
        grads = tape.gradient(loss, self.online.trainable_variables)
        self.opt.apply_gradients(zip(grads, self.online.trainable_variables))
        return loss

    def replay(self):
        batch = random.sample(self.memory, self.args.batch)
        s, a, r, s2, done = zip(*batch)
        return self.learn(tf.constant(np.stack(s)), tf.constant(a), tf.constant(r),
                          tf.constant(np.stack(s2)), tf.constant(done, tf.float32))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=500)
    p.add_argument("--warmup", type=int, default=1000)
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--gamma", type=float, default=0.95)
    p.add_argument("--lr", type=float, default=5e-4)
    args = p.parse_args()
    random.seed(4)
    keras.utils.set_random_seed(4)
    env = Snake()
    agent = Agent(env.size, args)
    state, games, learned = env.reset(), 0, 0
    t0 = time.time()
    for k in range(args.warmup + args.steps):
        eps = 1.0 if k < args.warmup else max(0.1, 1.0 - (k - args.warmup) / 300)
        action = agent.act(state, eps)
        after, reward, done = env.step(action)
        agent.memory.append((state, action, reward, after, float(done)))
        state = env.reset() if done else after
        games += done
        if k >= args.warmup:
            loss = agent.replay()
            learned += 1
            if learned % 100 == 0:
                print(f"step {learned} games {games} loss {float(loss):.4f}")
            if learned % 200 == 0:
                agent.target.set_weights(agent.online.get_weights())
    print("WORK", learned)
    print(f"TRAIN_SECONDS {time.time() - t0:.3f}")


if __name__ == "__main__":
    main()
