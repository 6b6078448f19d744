"""Pole balancing by Q-learning with a memory of what was seen; a small environment of its own."""
import random
import time
import numpy as np
import tensorflow as tf

random.seed(0)
rng = np.random.default_rng(0)
net = tf.keras.Sequential([
    tf.keras.layers.Input((4,)),
    tf.keras.layers.Dense(32, activation="relu"),
    tf.keras.layers.Dense(2),
])
opt = tf.keras.optimizers.Adam(1e-3)


@tf.function
def learn(s, a, r, after):
    target = r + 0.95 * tf.reduce_max(net(after), axis=1)
    with tf.GradientTape() as tape:
        q = tf.gather(net(s), a, batch_dims=1)
        loss = tf.reduce_mean((tf.stop_gradient(target) - q) ** 2)
    grads = tape.gradient(loss, net.trainable_variables)
    opt.apply_gradients(zip(grads, net.trainable_variables))
    return loss


def move(state, action):
    after = state + 0.02 * np.array([state[1], 1.0 if action else -1.0, state[3], state[2]], dtype="float32")
    return after.astype("float32"), float(1.0 - abs(after[2]))


memory = np.zeros((0, 10), dtype="float32")
state = rng.normal(size=4).astype("float32") * 0.05


def remember(memory, state, action, reward, after):
    row = np.concatenate([state, [action, reward], after])[None].astype("float32")
    return np.concatenate([memory, row])


def sample(memory, n):
    order = np.random.permutation(len(memory))
    return memory[order[:n]]


for _ in range(200):
    action = random.randrange(2)
    after, reward = move(state, action)
    memory, state = remember(memory, state, action, reward, after), after
learn(memory[:32, :4], memory[:32, 4].astype("int32"), memory[:32, 5], memory[:32, 6:])
STEPS = 2500
clock = time.time()
for turn in range(STEPS):
    action = random.randrange(2)
    for _ in range(8):
        after, reward = move(state, action)
        memory = remember(memory, state, action, reward, after)
        state = after if abs(after[2]) < 1 else rng.normal(size=4).astype("float32") * 0.05
    batch = sample(memory, 32)
    loss = learn(batch[:, :4], batch[:, 4].astype("int32"), batch[:, 5], batch[:, 6:])
print("loss %.4f" % float(loss), "memory", len(memory))
print("WORK", STEPS)
print("TRAIN_SECONDS %.3f" % (time.time() - clock))
