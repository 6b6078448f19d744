"""Prioritised-replay Q-learning on a toy warehouse routing task (transitions pre-collected)."""
import numpy as np
import tensorflow as tf
import keras


class PrioritisedMemory:
    def __init__(self, obs_dim, actions, size, seed=0):
        r = np.random.default_rng(seed)
        self.rng = r
        self.obs = r.normal(size=(size, obs_dim)).astype("float32")
        self.act = r.integers(0, actions, size).astype("int32")
        self.rew = (self.obs[np.arange(size), self.act % obs_dim]).astype("float32")
        self.nxt = (0.9 * self.obs + 0.3 * r.normal(size=self.obs.shape)).astype("float32")
        self.done = (r.random(size) < 0.05).astype("float32")
        self.priority = np.ones(size, "float64")

    def sample(self, k):
        p = self.priority ** 0.6
        idx = self.rng.choice(len(p), k, p=p / p.sum())
        return idx, (self.obs[idx], self.act[idx], self.rew[idx], self.nxt[idx], self.done[idx])

    def reprioritise(self, idx, errors):
        for i, err in zip(idx, errors):
            self.priority[i] = abs(float(err)) + 1e-3


def q_network(obs_dim, actions):
    return keras.Sequential([
        keras.Input((obs_dim,)),
        keras.layers.Dense(128, activation="relu"),
        keras.layers.Dense(128, activation="relu"),
        keras.layers.Dense(actions),
    ])


class Agent:
    def __init__(self, obs_dim, actions, gamma=0.97):
        self.q = q_network(obs_dim, actions)
        self.target = q_network(obs_dim, actions)
        self.target.set_weights(self.q.get_weights())
        self.actions = actions
        self.gamma = gamma
        self.opt = keras.optimizers.Adam(5e-4)
        self.opt.build(self.q.trainable_variables)

    @tf.function
    def learn(self, s, a, r, s2, d):
        best = tf.reduce_max(self.target(s2), axis=1)
        goal = r + self.gamma * (1.0 - d) * best
        with tf.GradientTape() as tape:
            chosen = tf.reduce_sum(self.q(s) * tf.one_hot(a, self.actions), axis=1)
            td = goal - chosen
            loss = tf.reduce_mean(tf.where(tf.abs(td) < 1.0, 0.5 * td * td, tf.abs(td) - 0.5))
        g = tape.gradient(loss, self.q.trainable_variables)
        self.opt.apply_gradients(zip(g, self.q.trainable_variables))
        return loss, td


def main():
    memory = PrioritisedMemory(20, 8, 6000)
    agent = Agent(20, 8)
    for it in range(700):
        idx, batch = memory.sample(256)
        loss, td = agent.learn(*batch)
        memory.reprioritise(idx, td)
        if it % 100 == 0:
            agent.target.set_weights(agent.q.get_weights())
            print("iter", it, "loss", float(loss))


if __name__ == "__main__":
    main()
