"""Q-learning in 256 parallel dungeon corridors, with prioritised replay."""
import time
from dataclasses import dataclass
import numpy as np
import tensorflow as tf
import keras
from keras import layers

ENVS, OBS, MOVES = 256, 24, 5
STEPS, BATCH, GAMMA, ALPHA = 480, 256, 0.97, 0.6
rng = np.random.default_rng(8)


class Corridors:
    def __init__(self):
        self.effect = rng.normal(size=(MOVES, OBS)).astype("float32") * 0.2
        self.state = rng.normal(size=(ENVS, OBS)).astype("float32")

    def move(self, action):
        before = self.state
        after = 0.95 * before + self.effect[action]
        reward = after[:, 0] - 0.1 * np.abs(after[:, 1])
        lost = rng.random(ENVS) < 0.02
        after[lost] = rng.normal(size=(int(lost.sum()), OBS))
        self.state = after.astype("float32")
        return before, reward.astype("float32"), self.state, lost.astype("float32")


@dataclass
class Transition:
    obs: np.ndarray
    move: int
    reward: float
    after: np.ndarray
    over: float
    priority: float


class Replay:
    def __init__(self):
        self.items = []
        self.highest = 1.0

    def extend(self, obs, move, reward, after, over):
        for row in zip(obs, move, reward, after, over):
            self.items.append(Transition(*row, self.highest))

    def sample(self, n):
        weights = np.array([(t.priority + 1e-3) ** ALPHA for t in self.items])
        where = rng.choice(len(self.items), n, p=weights / weights.sum())
        chosen = [self.items[i] for i in where]
        columns = [np.array([getattr(t, name) for t in chosen], dtype)
                   for name, dtype in (("obs", "float32"), ("move", "int32"), ("reward", "float32"),
                                       ("after", "float32"), ("over", "float32"))]
        return where, columns

    def update(self, where, errors):
        for i, e in zip(where.tolist(), errors.tolist()):
            self.items[i].priority = e
        self.highest = max(self.highest, float(errors.max()))


def q_network():
    return keras.Sequential([keras.Input((OBS,)), layers.Dense(128, activation="relu"),
                             layers.Dense(128, activation="relu"), layers.Dense(MOVES)])


q, target = q_network(), q_network()
target.set_weights(q.get_weights())
opt = keras.optimizers.Adam(5e-4)


@tf.function
def act(obs):
    return tf.argmax(q(obs), -1)


@tf.function
def train(obs, move, reward, after, over):
    goal = reward + GAMMA * (1.0 - over) * tf.reduce_max(target(after), -1)
    with tf.GradientTape() as tape:
        error = tf.gather(q(obs), move, batch_dims=1) - tf.stop_gradient(goal)
        loss = tf.reduce_mean(tf.where(tf.abs(error) < 1.0, 0.5 * error ** 2, tf.abs(error) - 0.5))
    grads = tape.gradient(loss, q.trainable_variables)
    opt.apply_gradients(zip(grads, q.trainable_variables))
    return tf.abs(error)


world, memory = Corridors(), Replay()
t0 = time.perf_counter()
for step in range(1, STEPS + 1):
    greedy = act(world.state).numpy()
    move = np.where(rng.random(ENVS) < 0.1, rng.integers(0, MOVES, ENVS), greedy)
    obs, reward, after, over = world.move(move)
    memory.extend(obs, move, reward, after, over)
    where, columns = memory.sample(BATCH)
    memory.update(where, train(*columns).numpy())
    if step % 120 == 0:
        target.set_weights(q.get_weights())
        print(step, "mean reward", float(reward.mean()))
seconds = time.perf_counter() - t0
print("WORK", STEPS)
print("TRAIN_SECONDS %.3f" % seconds)
