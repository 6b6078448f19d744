"""Q-learning on stacked frames: an agent that remembers what it saw."""
import random
import time
import numpy as np
import tensorflow as tf

STEPS, BATCH = 6000, 32
rng = np.random.default_rng(0)
frames = rng.integers(0, 255, (64, 84, 84, 4), dtype=np.uint8)


class Corridor:
    def reset(self):
        self.at = 0
        return frames[0].copy()

    def step(self, action):
        self.at = max(self.at + (1 if action else -1), 0)
        return frames[self.at % 64].copy(), float(action == self.at % 2), self.at > 50


class Agent:
    def __init__(self):
        self.net = tf.keras.Sequential([
            tf.keras.layers.Input((84, 84, 4)),
            tf.keras.layers.Rescaling(1 / 255),
            tf.keras.layers.Conv2D(8, 8, strides=8, activation="relu"),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(2),
        ])
        self.opt = tf.keras.optimizers.Adam(1e-4)
        self.memory = []

    def remember(self, state, action, reward, after):
        self.memory.append((state, action, reward, after))

    @tf.function(reduce_retracing=True)
    def learn(self, states, actions, rewards, after):
        target = rewards + 0.95 * tf.reduce_max(self.net(after), axis=1)
        with tf.GradientTape() as tape:
            q = tf.gather(self.net(states), actions, batch_dims=1)
            loss = tf.reduce_mean((q - target) ** 2)
        grads = tape.gradient(loss, self.net.trainable_variables)
        self.opt.apply_gradients(zip(grads, self.net.trainable_variables))
        return loss


def play(agent, steps):
    env = Corridor()
    state = env.reset()
    for step in range(steps):
        action = random.randrange(2)
        after, reward, done = env.step(action)
        agent.remember(state, action, reward, after)
        state = env.reset() if done else after
        if step % 8 == 7 and len(agent.memory) >= BATCH:
            batch = random.sample(agent.memory, BATCH)
            s, a, r, n = (np.stack(column) for column in zip(*batch))
            agent.learn(s, a.astype("int32"), r.astype("float32"), n)


agent = Agent()
play(agent, 64)
start = time.perf_counter()
play(agent, STEPS)
print("remembered", len(agent.memory))
print("WORK", STEPS)
print("TRAIN_SECONDS %.3f" % (time.perf_counter() - start))
