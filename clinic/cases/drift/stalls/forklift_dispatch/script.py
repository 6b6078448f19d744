"""Q-learning for sending forklifts to loading bays in a simulated warehouse (vectorised toy simulator)."""
import os
import tempfile
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers

STATE, BAYS, GAMMA = 32, 12, 0.97


class Warehouse:
    """Many warehouses stepped together; queues drift, a served bay empties."""

    def __init__(self, copies, seed):
        self.rng = np.random.default_rng(seed)
        self.state = self.rng.normal(size=(copies, STATE)).astype(np.float32)

    def step(self, actions):
        rows = np.arange(len(actions))
        reward = self.state[rows, actions].copy()
        following = 0.95 * self.state + 0.3 * self.rng.normal(size=self.state.shape).astype(np.float32)
        following[rows, actions] -= 1.0
        before, self.state = self.state, following.astype(np.float32)
        return before, reward, self.state


class Memory:
    def __init__(self, size):
        self.size, self.at, self.full = size, 0, 0
        self.arrays = {
            "state": np.zeros((size, STATE), np.float32),
            "after": np.zeros((size, STATE), np.float32),
            "action": np.zeros(size, np.int32),
            "reward": np.zeros(size, np.float32),
        }

    def add(self, **items):
        n = len(items["action"])
        where = (self.at + np.arange(n)) % self.size
        for key, value in items.items():
            self.arrays[key][where] = value
        self.at, self.full = (self.at + n) % self.size, min(self.full + n, self.size)

    def sample(self, n, rng):
        pick = rng.integers(0, self.full, n)
        return [self.arrays[k][pick] for k in ("state", "action", "reward", "after")]

    def save(self, path):
        np.savez_compressed(path, at=self.at, full=self.full, **self.arrays)


def q_net():
    return keras.Sequential([
        keras.Input((STATE,)),
        layers.Dense(384, activation="relu"),
        layers.Dense(384, activation="relu"),
        layers.Dense(BAYS),
    ])


keras.utils.set_random_seed(2)
rng = np.random.default_rng(2)
online, target = q_net(), q_net()
target.set_weights(online.get_weights())
optimizer = keras.optimizers.Adam(5e-4)
optimizer.build(online.trainable_variables)


@tf.function
def learn(state, action, reward, after):
    goal = reward + GAMMA * tf.reduce_max(target(after), axis=1)
    with tf.GradientTape() as tape:
        q = tf.gather(online(state), action, axis=1, batch_dims=1)
        loss = tf.reduce_mean(tf.square(goal - q))
    grads = tape.gradient(loss, online.trainable_variables)
    optimizer.apply_gradients(zip(grads, online.trainable_variables))
    return loss


@tf.function
def act(state):
    return tf.argmax(online(state), axis=1, output_type=tf.int32)


def explore(world, memory, greedy):
    actions = rng.integers(0, BAYS, len(world.state)).astype(np.int32)
    if greedy:
        best = act(world.state).numpy()
        actions = np.where(rng.random(len(best)) < 0.1, actions, best)
    before, reward, after = world.step(actions)
    memory.add(state=before, action=actions, reward=reward, after=after)


world, memory = Warehouse(128, seed=2), Memory(60_000)
while memory.full < memory.size:
    explore(world, memory, greedy=False)
learn(*memory.sample(256, rng))
explore(world, memory, greedy=True)

folder = tempfile.mkdtemp(prefix="forklift_")
STEPS, KEEP_EVERY, SYNC_EVERY = 600, 50, 100
start = time.perf_counter()
for step in range(1, STEPS + 1):
    explore(world, memory, greedy=True)
    loss = learn(*memory.sample(256, rng))
    if step % SYNC_EVERY == 0:
        target.set_weights(online.get_weights())
        print(f"update {step}: loss {float(loss):.4f}")
    if step % KEEP_EVERY == 0:
        memory.save(os.path.join(folder, "memory.npz"))
        online.save_weights(os.path.join(folder, "online.weights.h5"))
elapsed = time.perf_counter() - start
print("WORK", STEPS)
print("TRAIN_SECONDS", round(elapsed, 3))
