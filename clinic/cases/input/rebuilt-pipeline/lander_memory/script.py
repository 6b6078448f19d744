"""A moon lander learns by Q-learning; what it has seen lies in a deque, of which each step draws a batch."""
import collections
import random
import time
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(0)
ACTIONS, BATCH, STEPS = 4, 64, 1200
net = tf.keras.Sequential([
    tf.keras.layers.Input((8,)),
    tf.keras.layers.Dense(64, activation="relu"),
    tf.keras.layers.Dense(64, activation="relu"),
    tf.keras.layers.Dense(ACTIONS),
])
opt = tf.keras.optimizers.Adam(1e-3)


@tf.function
def learn(s, a, r, after):
    target = r + 0.99 * tf.reduce_max(net(after), axis=1)
    with tf.GradientTape() as tape:
        q = tf.gather(net(s), a, batch_dims=1)
        loss = tf.reduce_mean((tf.stop_gradient(target) - q) ** 2)
    grads = tape.gradient(loss, net.trainable_variables)
    opt.apply_gradients(zip(grads, net.trainable_variables))
    return loss


def fly(state, action):
    push = np.zeros(8, dtype="float32")
    push[action] = 0.05
    after = 0.99 * state + push + np.random.normal(0, 0.01, 8).astype("float32")
    return after.astype("float32"), np.float32(-np.abs(after[:2]).sum())


memory = collections.deque(maxlen=20_000)
state = np.random.normal(0, 0.3, 8).astype("float32")
for _ in range(4000):
    action = random.randrange(ACTIONS)
    after, reward = fly(state, action)
    memory.append((state, np.int32(action), reward, after))
    state = after


def replay():
    drawn = random.sample(memory, BATCH)
    columns = tuple(np.stack(column) for column in zip(*drawn))
    return tf.data.Dataset.from_tensor_slices(columns).batch(BATCH)


def play(steps):
    global state
    for _ in range(steps):
        action = random.randrange(ACTIONS)
        after, reward = fly(state, action)
        memory.append((state, np.int32(action), reward, after))
        state = after
        for s, a, r, then in replay():
            loss = learn(s, a, r, then)
    return float(loss)


play(20)
clock = time.time()
print("loss %.4f" % play(STEPS))
print("WORK", STEPS)
print("TRAIN_SECONDS %.3f" % (time.time() - clock))
