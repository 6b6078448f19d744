"""DDPG with hindsight goals on logged episodes of a 4-joint reaching arm."""
import time

import numpy as np
import tensorflow as tf
import keras

OBS, ACT, GOAL = 14, 4, 3
EPISODE, EPISODES = 50, 2000
BATCH, UPDATES, RELABEL_EVERY = 512, 300, 30
GAMMA, TAU, TOLERANCE = 0.97, 0.01, 0.08


def mlp(n_in, n_out, final=None, hidden=384):
    return keras.Sequential([
        keras.Input((n_in,)),
        keras.layers.Dense(hidden, activation="relu"),
        keras.layers.Dense(hidden, activation="relu"),
        keras.layers.Dense(n_out, activation=final),
    ])


class HindsightBuffer:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        n = EPISODE * EPISODES
        self.size = n
        self.act = self.rng.uniform(-1, 1, (n, ACT)).astype("float32")
        steps = self.act.reshape(EPISODES, EPISODE, ACT)[:, :, :3] * 0.05
        tip = np.cumsum(steps, axis=1) + self.rng.normal(0, 0.3, (EPISODES, 1, 3))
        before = np.concatenate([tip[:, :1] - steps[:, :1], tip[:, :-1]], axis=1)
        self.tip = tip.reshape(n, 3).astype("float32")
        extra = self.rng.standard_normal((n, OBS - 3), dtype="float32")
        self.obs = np.concatenate([before.reshape(n, 3).astype("float32"), extra], axis=1)
        self.next_obs = np.concatenate([self.tip, extra], axis=1)
        self.desired = np.repeat(self.rng.normal(0, 0.5, (EPISODES, 3)), EPISODE, axis=0).astype("float32")
        self.goal = np.empty((n, GOAL), "float32")
        self.reward = np.empty((n, 1), "float32")

    def relabel(self, share=0.8):
        index = np.arange(self.size)
        future = self.rng.integers(index, (index // EPISODE + 1) * EPISODE)
        swap = self.rng.random(self.size) < share
        for i in index:
            goal = self.tip[future[i]] if swap[i] else self.desired[i]
            distance = np.linalg.norm(self.tip[i] - goal)
            self.goal[i] = goal
            self.reward[i] = 0.0 if distance < TOLERANCE else -1.0

    def sample(self):
        i = self.rng.integers(0, self.size, BATCH)
        return self.obs[i], self.act[i], self.next_obs[i], self.goal[i], self.reward[i]


class Agent:
    def __init__(self):
        self.actor, self.actor_t = mlp(OBS + GOAL, ACT, "tanh"), mlp(OBS + GOAL, ACT, "tanh")
        self.critic, self.critic_t = mlp(OBS + GOAL + ACT, 1), mlp(OBS + GOAL + ACT, 1)
        self.actor_t.set_weights(self.actor.get_weights())
        self.critic_t.set_weights(self.critic.get_weights())
        self.actor_opt, self.critic_opt = keras.optimizers.Adam(1e-4), keras.optimizers.Adam(1e-3)

    @tf.function
    def update(self, obs, act, next_obs, goal, reward):
        s, s2 = tf.concat([obs, goal], 1), tf.concat([next_obs, goal], 1)
        target = reward + GAMMA * self.critic_t(tf.concat([s2, self.actor_t(s2)], 1))
        target = tf.clip_by_value(target, -1.0 / (1.0 - GAMMA), 0.0)
        with tf.GradientTape() as tape:
            q_loss = tf.reduce_mean(tf.square(self.critic(tf.concat([s, act], 1)) - target))
        v = self.critic.trainable_variables
        self.critic_opt.apply_gradients(zip(tape.gradient(q_loss, v), v))
        with tf.GradientTape() as tape:
            pi_loss = -tf.reduce_mean(self.critic(tf.concat([s, self.actor(s)], 1)))
        v = self.actor.trainable_variables
        self.actor_opt.apply_gradients(zip(tape.gradient(pi_loss, v), v))
        for net, slow in ((self.actor, self.actor_t), (self.critic, self.critic_t)):
            for a, b in zip(net.trainable_variables, slow.trainable_variables):
                b.assign_add(TAU * (a - b))
        return q_loss, pi_loss


def main():
    keras.utils.set_random_seed(4)
    buffer, agent = HindsightBuffer(4), Agent()
    t0 = time.perf_counter()
    for step in range(UPDATES):
        if step % RELABEL_EVERY == 0:
            buffer.relabel()
        q_loss, pi_loss = agent.update(*map(tf.convert_to_tensor, buffer.sample()))
        if (step + 1) % 100 == 0:
            print(f"{step + 1}: critic {float(q_loss):.4f} actor {float(pi_loss):.4f}", flush=True)
    took = time.perf_counter() - t0
    print("WORK", UPDATES)
    print("TRAIN_SECONDS", took)


main()
