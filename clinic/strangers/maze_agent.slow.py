"""Q-learning in a maze, prioritised replay."""
import collections
import random

import numpy as np
import tensorflow as tf

random.seed(79)
np.random.seed(79)
tf.keras.utils.set_random_seed(79)

SIZE, ACTIONS, BATCH, GAMMA = 9, 4, 64, 0.95
MOVES = [(0, 1), (0, -1), (1, 0), (-1, 0)]
Transition = collections.namedtuple("Transition", "state action reward nxt done priority")


class Maze:
    def __init__(self):
        self.walls = {(r, c) for r in range(SIZE) for c in range(SIZE) if random.random() < 0.2 and r + c}
        self.reset()

    def reset(self):
        self.pos = (0, 0)
        return self.observe()

    def observe(self):
        grid = np.zeros(SIZE * SIZE, np.float32)
        grid[self.pos[0] * SIZE + self.pos[1]] = 1
        return grid

    def step(self, action):
        r, c = self.pos[0] + MOVES[action][0], self.pos[1] + MOVES[action][1]
        if 0 <= r < SIZE and 0 <= c < SIZE and (r, c) not in self.walls:
            self.pos = (r, c)
        done = self.pos == (SIZE - 1, SIZE - 1)
        return self.observe(), (1.0 if done else -0.01), done


q = tf.keras.Sequential([tf.keras.layers.Input((SIZE * SIZE,)), tf.keras.layers.Dense(64, "relu"),
                         tf.keras.layers.Dense(ACTIONS)])
optimizer = tf.keras.optimizers.Adam(1e-3)


@tf.function
def act(state):
    return tf.argmax(q(state[None]), axis=-1)[0]


@tf.function
def learn(s, a, r, n, d):
    target = r + GAMMA * (1 - d) * tf.reduce_max(q(n), axis=-1)
    with tf.GradientTape() as tape:
        value = tf.gather(q(s), a, batch_dims=1)
        loss = tf.reduce_mean(tf.square(target - value))
    optimizer.apply_gradients(zip(tape.gradient(loss, q.trainable_variables), q.trainable_variables))
    return loss


env, memory = Maze(), []
state = env.reset()
for step in range(600):
    for _ in range(12):
        action = random.randrange(ACTIONS) if random.random() < 0.8 else int(act(tf.constant(state)))
        nxt, reward, done = env.step(action)
        memory.append(Transition(state, action, reward, nxt, done, abs(reward) + 0.01))
        state = env.reset() if done else nxt
    weights = np.array([t.priority for t in memory])
    states = np.array([t.state for t in memory])
    nexts = np.array([t.nxt for t in memory])
    pick = np.random.choice(len(memory), BATCH, p=weights / weights.sum())
    loss = learn(states[pick], np.array([memory[i].action for i in pick]),
                 np.array([memory[i].reward for i in pick], np.float32), nexts[pick],
                 np.array([memory[i].done for i in pick], np.float32))
    if step % 100 == 99:
        print("step", step + 1, "memory", len(memory), "loss", float(loss))
