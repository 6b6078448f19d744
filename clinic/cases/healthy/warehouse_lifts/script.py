"""DQN for two warehouse lifts, 64 warehouses side by side, so the network decides for all of them in one call."""
import time

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(13)
FLEET, FLOORS, ACTIONS, BATCH = 64, 12, 9, 512
rng = np.random.default_rng(13)


class Lifts:
    """State: two lift positions and the waiting pallets on every floor."""

    def __init__(self):
        self.lift = rng.integers(0, FLOORS, (FLEET, 2))
        self.wait = np.zeros((FLEET, FLOORS), "float32")

    def state(self):
        hot = np.eye(FLOORS, dtype="float32")[self.lift].reshape(FLEET, -1)
        return np.concatenate([hot, self.wait / 5], 1)

    def step(self, action):
        move = np.stack([action // 3 - 1, action % 3 - 1], 1)
        self.lift = np.clip(self.lift + move, 0, FLOORS - 1)
        self.wait += rng.random((FLEET, FLOORS)) < 0.05
        rows = np.arange(FLEET)
        taken = np.zeros(FLEET, "float32")
        for k in (0, 1):
            taken += self.wait[rows, self.lift[:, k]]
            self.wait[rows, self.lift[:, k]] = 0
        self.wait = np.minimum(self.wait, 5)
        return taken - 0.05 * self.wait.sum(1)


def net():
    return tf.keras.Sequential([tf.keras.Input((3 * FLOORS,))] +
                               [tf.keras.layers.Dense(512, "relu") for _ in range(3)] + [tf.keras.layers.Dense(ACTIONS)])


q, frozen = net(), net()
frozen.set_weights(q.get_weights())
opt = tf.keras.optimizers.Adam(3e-4)
decide = tf.function(lambda s: tf.argmax(q(s), axis=1))


@tf.function
def learn(s, a, r, s2):
    target = r + 0.95 * tf.reduce_max(frozen(s2), 1)
    with tf.GradientTape() as tape:
        chosen = tf.gather(q(s), a, batch_dims=1)
        loss = tf.reduce_mean(tf.square(chosen - target))
    opt.apply_gradients(zip(tape.gradient(loss, q.trainable_variables), q.trainable_variables))
    return loss


SIZE = 20_000
S, S2 = np.zeros((2, SIZE, 3 * FLOORS), "float32")
A, R = np.zeros(SIZE, "int32"), np.zeros(SIZE, "float32")
world, at, work = Lifts(), 0, 0
t0 = time.time()
for tick in range(300):
    s = world.state()
    a = decide(s).numpy()
    explore = rng.random(FLEET) < max(0.05, 1 - tick / 150)
    a = np.where(explore, rng.integers(0, ACTIONS, FLEET), a)
    r = world.step(a)
    span = slice(at, at + FLEET)
    S[span], A[span], R[span], S2[span] = s, a, r, world.state()
    at += FLEET
    if at >= BATCH:
        pick = rng.integers(0, at, BATCH)
        loss = learn(S[pick], A[pick], R[pick], S2[pick])
        work += BATCH
    if tick % 100 == 99:
        frozen.set_weights(q.get_weights())
        print(tick + 1, "reward %.3f" % r.mean(), "loss %.4f" % float(loss))
print("WORK", work)
print("TRAIN_SECONDS %.3f" % (time.time() - t0))
