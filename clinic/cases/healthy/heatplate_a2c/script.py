"""Actor-critic that keeps a heated plate at its set point; the plate is a small finite-volume simulation, implicit in time."""
import numpy as np
import tensorflow as tf
from tensorflow import keras


class HeatedPlates:
    """A few plates side by side, each with its own conductivity field; nonlinear, so every step solves anew."""

    def __init__(self, plates=4, n=13, seed=0):
        self.rng = np.random.default_rng(seed)
        self.n, self.plates = n, plates
        self.eye = np.eye(n * n, dtype="float32")
        lap1 = 2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)
        self.lap = (np.kron(lap1, np.eye(n)) + np.kron(np.eye(n), lap1)).astype("float32")
        self.heaters = np.zeros((4, n * n), "float32")
        for k, (i, j) in enumerate([(3, 3), (3, 9), (9, 3), (9, 9)]):
            self.heaters[k, i * n + j] = 4.0
        self.reset()

    def reset(self):
        self.u = self.rng.normal(0, 0.2, (self.plates, self.n * self.n)).astype("float32")
        self.goal = self.rng.uniform(0.3, 0.8, self.plates).astype("float32")
        return self.observe()

    def observe(self):
        sub = self.u.reshape(self.plates, self.n, self.n)[:, ::4, ::4].reshape(self.plates, -1)
        return np.concatenate([sub, self.goal[:, None]], 1).astype("float32")

    def step(self, action):
        conductivity = 0.2 + 0.1 * np.tanh(self.u)
        system = self.eye + conductivity[:, :, None] * self.lap
        self.u = np.linalg.solve(system, (self.u + action @ self.heaters)[..., None])[..., 0]
        reward = -np.square(self.u.mean(1) - self.goal)
        return self.observe(), reward.astype("float32")


env = HeatedPlates()
OBS = env.observe().shape[1]
inp = keras.Input((OBS,))
h = keras.layers.Dense(64, "tanh")(keras.layers.Dense(64, "tanh")(inp))
net = keras.Model(inp, [keras.layers.Dense(4)(h), keras.layers.Dense(1)(h)])
log_std = tf.Variable(tf.fill([4], -1.0))
params = net.trainable_variables + [log_std]
opt = keras.optimizers.Adam(1e-3)


@tf.function(input_signature=[tf.TensorSpec([None, OBS])])
def act(obs):
    mean, _ = net(obs)
    return mean + tf.exp(log_std) * tf.random.normal(tf.shape(mean))


@tf.function(input_signature=[tf.TensorSpec([None, OBS]), tf.TensorSpec([None, 4]), tf.TensorSpec([None])])
def learn(obs, actions, returns):
    with tf.GradientTape() as tape:
        mean, value = net(obs)
        advantage = returns - value[:, 0]
        logp = tf.reduce_sum(-0.5 * tf.square((actions - mean) / tf.exp(log_std)) - log_std, 1)
        loss = tf.reduce_mean(-logp * tf.stop_gradient(advantage) + 0.5 * tf.square(advantage))
    grads = tape.gradient(loss, params)
    opt.apply_gradients(zip(tf.clip_by_global_norm(grads, 1.0)[0], params))
    return loss


HORIZON, GAMMA = 8, 0.9
for update in range(70):
    obs = env.reset()
    seen, done, rewards = [], [], []
    for _ in range(HORIZON):
        action = act(obs).numpy()
        seen.append(obs)
        done.append(action)
        obs, r = env.step(action)
        rewards.append(r)
    returns = np.zeros((HORIZON, env.plates), "float32")
    acc = 0.0
    for t in reversed(range(HORIZON)):
        acc = rewards[t] + GAMMA * acc
        returns[t] = acc
    loss = learn(np.concatenate(seen), np.concatenate(done), returns.ravel())
    if update % 10 == 0:
        print(f"update {update:3d} loss {float(loss):.4f} reward {np.mean(rewards):.4f}")
