"""A rover's arm learns to reach (actor and critic on a replay memory); the memory is saved for a later resume."""
import os
import tempfile
import time
import numpy as np
import tensorflow as tf
import keras

keras.utils.set_random_seed(23)
rng = np.random.default_rng(23)

STATE, ACTION, ROOM, BATCH = 24, 4, 40000, 128


def mlp(n_in, n_out, last=None):
    return keras.Sequential([
        keras.Input((n_in,)),
        keras.layers.Dense(128, activation="relu"),
        keras.layers.Dense(128, activation="relu"),
        keras.layers.Dense(n_out, activation=last),
    ])


actor, critic, slow_critic = mlp(STATE, ACTION, "tanh"), mlp(STATE + ACTION, 1), mlp(STATE + ACTION, 1)
slow_critic.set_weights(critic.get_weights())
opt_a, opt_c = keras.optimizers.Adam(5e-4), keras.optimizers.Adam(1e-3)
push = rng.normal(size=(ACTION, STATE)).astype("float32") * 0.1


class Memory:
    def __init__(self):
        self.s = rng.normal(size=(ROOM, STATE)).astype("float32")
        self.a = rng.uniform(-1, 1, (ROOM, ACTION)).astype("float32")
        self.s2 = self.s + self.a @ push
        self.r = -np.abs(self.s2[:, :3]).sum(1, keepdims=True)
        self.next = 0

    def put(self, s, a):
        k = self.next % ROOM
        self.s[k], self.a[k], self.s2[k] = s, a, s + a @ push
        self.r[k] = -np.abs(self.s2[k, :3]).sum()
        self.next += 1
        return self.s2[k]

    def draw(self):
        i = rng.integers(0, ROOM, BATCH)
        return self.s[i], self.a[i], self.r[i], self.s2[i]

    def save(self, path):
        np.savez_compressed(path, s=self.s, a=self.a, s2=self.s2, r=self.r)


@tf.function
def act(s):
    return actor(s)


@tf.function
def improve(s, a, r, s2):
    goal = r + 0.95 * slow_critic(tf.concat([s2, actor(s2)], 1))
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((critic(tf.concat([s, a], 1)) - goal) ** 2)
    opt_c.apply_gradients(zip(tape.gradient(loss, critic.trainable_variables), critic.trainable_variables))
    with tf.GradientTape() as tape:
        value = -tf.reduce_mean(critic(tf.concat([s, actor(s)], 1)))
    opt_a.apply_gradients(zip(tape.gradient(value, actor.trainable_variables), actor.trainable_variables))
    for w, v in zip(slow_critic.trainable_variables, critic.trainable_variables):
        w.assign(0.99 * w + 0.01 * v)
    return loss


memory, t0 = Memory(), time.time()
state = rng.normal(size=STATE).astype("float32")
with tempfile.TemporaryDirectory() as folder:
    for step in range(1, 1601):
        a = act(state[None]).numpy()[0] + 0.1 * rng.normal(size=ACTION).astype("float32")
        state = memory.put(state, a) if step % 50 else rng.normal(size=STATE).astype("float32")
        loss = improve(*memory.draw())
        if step % 100 == 0:
            memory.save(os.path.join(folder, "memory.npz"))
        if step % 400 == 0:
            print(f"{step}: critic loss {float(loss):.3f}, {time.time() - t0:.1f} s")
