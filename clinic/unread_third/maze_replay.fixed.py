"""Deep Q-learning in a grid maze with prioritised replay."""
from dataclasses import dataclass

import numpy as np
import tensorflow as tf
from tensorflow import keras

SIZE = 10
MOVES = ((0, 1), (0, -1), (1, 0), (-1, 0))
BATCH = 64
FRAMES = 100_000


@dataclass
class Transition:
    s: np.ndarray
    a: int
    r: float
    s2: np.ndarray
    done: float


class Replay:
    def __init__(self, alpha=0.6, size=10_000):
        self.items = [None] * size
        self.priority = np.ones(size, np.float32)
        self.added = 0
        self.alpha = alpha

    def add(self, tr):
        slot = self.added % len(self.items)
        self.items[slot], self.priority[slot] = tr, 1.0
        self.added += 1

    def sample(self, n):
        weight = self.priority[:self.added].astype("float64") ** self.alpha
        idx = np.random.choice(len(weight), n, p=weight / weight.sum())
        return idx, [self.items[i] for i in idx]


def encode(pos):
    v = np.zeros(2 * SIZE, np.float32)
    v[pos[0]] = v[SIZE + pos[1]] = 1.0
    return v


def q_net():
    return keras.Sequential([
        keras.layers.Input((2 * SIZE,)),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dense(4),
    ])


online, target = q_net(), q_net()
opt = keras.optimizers.Adam(5e-4)
opt.build(online.trainable_variables)
q_values = tf.function(lambda s: online(s))


@tf.function
def learn(s, a, r, s2, done):
    goal = r + 0.98 * (1.0 - done) * tf.reduce_max(target(s2), axis=1)
    with tf.GradientTape() as tape:
        td = goal - tf.gather(online(s), a, batch_dims=1)
        loss = tf.reduce_mean(tf.square(td))
    opt.apply_gradients(zip(tape.gradient(loss, online.trainable_variables),
                            online.trainable_variables))
    return tf.abs(td)


replay, pos = Replay(), (0, 0)
for frame in range(FRAMES):
    s = encode(pos)
    if np.random.rand() < max(0.05, 1 - frame / 20_000):
        a = np.random.randint(4)
    else:
        a = int(np.argmax(q_values(tf.constant(s[None])).numpy()))
    nxt = tuple(np.clip(np.add(pos, MOVES[a]), 0, SIZE - 1))
    done = nxt == (SIZE - 1, SIZE - 1)
    replay.add(Transition(s, a, 1.0 if done else -0.01, encode(nxt), float(done)))
    pos = (0, 0) if done else nxt
    if frame > 500:
        idx, batch = replay.sample(BATCH)
        td = learn(tf.constant(np.stack([t.s for t in batch])),
                   tf.constant([t.a for t in batch], tf.int32),
                   tf.constant([t.r for t in batch], tf.float32),
                   tf.constant(np.stack([t.s2 for t in batch])),
                   tf.constant([t.done for t in batch], tf.float32)).numpy()
        replay.priority[idx] = td + 1e-3
    if frame % 1000 == 0:
        target.set_weights(online.get_weights())
