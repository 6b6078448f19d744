"""Deep Q-learning on a discretised pendulum swing-up."""
import argparse
import random
import time
from collections import deque

import numpy as np
import tensorflow as tf
from tensorflow import keras

TORQUES = np.array([-2.0, -1.0, 0.0, 1.0, 2.0])


class Pendulum:
    def __init__(self, rng, dt=0.05):
        self.rng, self.dt = rng, dt
        self.reset()

    def reset(self):
        self.theta = self.rng.uniform(-np.pi, np.pi)
        self.omega = self.rng.uniform(-1, 1)
        self.t = 0
        return self.observe()

    def observe(self):
        return np.array([np.cos(self.theta), np.sin(self.theta), self.omega / 8.0], np.float32)

    def step(self, torque):
        cost = ((self.theta + np.pi) % (2 * np.pi) - np.pi) ** 2 + 0.1 * self.omega ** 2
        self.omega += (15.0 * np.sin(self.theta) + 3.0 * torque) * self.dt
        self.omega = float(np.clip(self.omega, -8, 8))
        self.theta += self.omega * self.dt
        self.t += 1
        return self.observe(), -cost / 10.0, self.t >= 80


def q_network(hidden):
    return keras.Sequential([
        keras.Input((3,)),
        keras.layers.Dense(hidden, activation="relu"),
        keras.layers.Dense(hidden, activation="relu"),
        keras.layers.Dense(len(TORQUES)),
    ])


class Agent:
    def __init__(self, hidden=320, gamma=0.98):
        self.online, self.target = q_network(hidden), q_network(hidden)
        self.target.set_weights(self.online.get_weights())
        self.optimizer = keras.optimizers.Adam(5e-4)
        self.memory = deque(maxlen=20000)
        self.gamma, self.epsilon = gamma, 1.0

    def act(self, state):
        if random.random() < self.epsilon:
            return random.randrange(len(TORQUES))
        q = self.online.predict(state[None, :], verbose=0)
        return int(np.argmax(q[0]))

    @tf.function
    def learn(self, s, a, r, s2, done):
        best = tf.reduce_max(self.target(s2), axis=1)
        goal = r + self.gamma * best * (1.0 - done)
        with tf.GradientTape() as tape:
            q = tf.gather(self.online(s), a, axis=1, batch_dims=1)
            loss = tf.reduce_mean(tf.square(goal - q))
        grads = tape.gradient(loss, self.online.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.online.trainable_variables))
        return loss

    def replay(self, n):
        s, a, r, s2, d = zip(*random.sample(self.memory, n))
        return self.learn(np.stack(s), np.array(a, np.int32), np.array(r, np.float32),
                          np.stack(s2), np.array(d, np.float32))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--episodes", type=int, default=2)
    p.add_argument("--batch", type=int, default=512)
    args = p.parse_args()
    random.seed(3)
    env, agent = Pendulum(np.random.default_rng(3)), Agent()
    for _ in range(12):                     # random play fills the memory
        s, done = env.reset(), False
        while not done:
            a = random.randrange(len(TORQUES))
            s2, r, done = env.step(TORQUES[a])
            agent.memory.append((s, a, r, s2, float(done)))
            s = s2
    agent.epsilon = 0.15
    steps, start = 0, time.perf_counter()
    for episode in range(args.episodes):
        s, done, score = env.reset(), False, 0.0
        while not done:
            a = agent.act(s)
            s2, r, done = env.step(TORQUES[a])
            agent.memory.append((s, a, r, s2, float(done)))
            s, score = s2, score + r
            loss = agent.replay(args.batch)
            steps += 1
        agent.target.set_weights(agent.online.get_weights())
        agent.epsilon = max(0.05, agent.epsilon * 0.8)
        print(f"episode {episode}: return {score:.2f} loss {float(loss):.4f}")
    print("WORK", steps)
    print("TRAIN_SECONDS", time.perf_counter() - start)


if __name__ == "__main__":
    main()
