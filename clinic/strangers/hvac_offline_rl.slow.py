"""Offline Q-learning for a building's air conditioning, from logged transitions."""
import numpy as np
import tensorflow as tf

OBS, ACTIONS, GAMMA = 24, 5, 0.97


class Log:
    """The controller's log: one record per five minutes."""

    def __init__(self, n, seed=0):
        rng = np.random.default_rng(seed)
        obs = rng.normal(size=(n + 1, OBS)).astype("float32").cumsum(0) % 3.0 - 1.5
        act = rng.integers(0, ACTIONS, n)
        rew = -np.abs(obs[:-1, 0] - 0.3 * act) - 0.1 * act
        self.records = [
            {"obs": obs[i].tolist(), "action": int(act[i]), "reward": float(rew[i]),
             "next": obs[i + 1].tolist(), "done": (i % 288) == 287}
            for i in range(n)
        ]
        self.rng = rng

    def sample(self, size):
        rows = [self.records[i] for i in self.rng.integers(0, len(self.records), size)]
        return (np.array([r["obs"] for r in rows], "float32"),
                np.array([r["action"] for r in rows], "int32"),
                np.array([r["reward"] for r in rows], "float32"),
                np.array([r["next"] for r in rows], "float32"),
                np.array([r["done"] for r in rows], "float32"))


def q_network():
    return tf.keras.Sequential([
        tf.keras.layers.Input((OBS,)),
        tf.keras.layers.Dense(64, activation="relu"),
        tf.keras.layers.Dense(64, activation="relu"),
        tf.keras.layers.Dense(ACTIONS),
    ])


class Learner:
    def __init__(self):
        self.q, self.target = q_network(), q_network()
        self.target.set_weights(self.q.get_weights())
        self.opt = tf.keras.optimizers.Adam(5e-4)
        self.opt.build(self.q.trainable_variables)

    @tf.function
    def update(self, obs, act, rew, nxt, done):
        best = tf.reduce_max(self.target(nxt), axis=1)
        goal = rew + GAMMA * (1.0 - done) * best
        with tf.GradientTape() as tape:
            q = tf.reduce_sum(self.q(obs) * tf.one_hot(act, ACTIONS), axis=1)
            loss = tf.reduce_mean(tf.square(goal - q))
        grads = tape.gradient(loss, self.q.trainable_variables)
        self.opt.apply_gradients(zip(grads, self.q.trainable_variables))
        for a, b in zip(self.target.variables, self.q.variables):
            a.assign(0.995 * a + 0.005 * b)
        return loss


log, agent = Log(40_000), Learner()
for step in range(2000):
    loss = agent.update(*log.sample(512))
    if step % 500 == 0:
        print(f"step {step:5d}  td loss {float(loss):.4f}")
print("final", float(loss))
