"""Offline RL for a gripper arm: advantage-weighted regression from logged episodes."""
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

OBS, ACT, WIDTH, BATCH = 96, 7, 768, 1024
EPISODES, LENGTH, GAMMA = 120, 100, 0.97


def logged_episodes(seed=21):
    rng = np.random.default_rng(seed)
    obs = rng.normal(0, 1, (EPISODES, LENGTH, OBS)).astype("float32")
    act = np.tanh(obs[..., :ACT] + 0.2 * rng.normal(0, 1, (EPISODES, LENGTH, ACT))).astype("float32")
    rew = -np.abs(obs[..., 0] - act[..., 0]).astype("float32")
    return obs, act, rew


def returns_to_go(rewards):
    out = np.zeros_like(rewards)
    for e in range(rewards.shape[0]):
        running = 0.0
        for t in range(rewards.shape[1] - 1, -1, -1):
            running = rewards[e, t] + GAMMA * running
            out[e, t] = running
    return (out - out.mean()) / out.std()


def mlp(out):
    return keras.Sequential([
        keras.Input((OBS,)),
        layers.Dense(WIDTH, activation="relu"),
        layers.Dense(WIDTH, activation="relu"),
        layers.Dense(WIDTH, activation="relu"),
        layers.Dense(out),
    ])


class AWR:
    def __init__(self):
        self.critic, self.actor = mlp(1), mlp(ACT)
        self.critic_opt = keras.optimizers.SGD(1e-2, momentum=0.9)
        self.actor_opt = keras.optimizers.SGD(1e-2, momentum=0.9)
        self.critic_opt.build(self.critic.trainable_variables)
        self.actor_opt.build(self.actor.trainable_variables)
        self.critic_loss = keras.metrics.Mean()
        self.actor_loss = keras.metrics.Mean()

    @tf.function
    def update(self, obs, act, ret, train_actor):
        with tf.GradientTape() as tape:
            value = self.critic(obs, training=True)[:, 0]
            loss = tf.reduce_mean(tf.square(ret - value))
        weights = self.critic.trainable_variables
        self.critic_opt.apply_gradients(zip(tape.gradient(loss, weights), weights))
        self.critic_loss.update_state(loss)
        if train_actor:
            advantage = tf.stop_gradient(ret - value)
            weight = tf.minimum(tf.exp(advantage), 20.0)
            with tf.GradientTape() as tape:
                miss = tf.reduce_sum(tf.square(self.actor(obs, training=True) - act), axis=1)
                loss = tf.reduce_mean(weight * miss)
            weights = self.actor.trainable_variables
            self.actor_opt.apply_gradients(zip(tape.gradient(loss, weights), weights))
            self.actor_loss.update_state(loss)


def main():
    keras.utils.set_random_seed(21)
    obs, act, rew = logged_episodes()
    ret = returns_to_go(rew)
    columns = [a.reshape((-1,) + a.shape[2:]) for a in (obs, act, ret)]
    order = np.random.default_rng(0).permutation(len(columns[0]))
    keep = len(order) // BATCH * BATCH
    batches = [c[order[:keep]].reshape((-1, BATCH) + c.shape[1:]) for c in columns]
    data = tf.data.Dataset.from_tensor_slices(tuple(batches)).shuffle(64).prefetch(2)

    agent, samples = AWR(), 0
    tic = time.perf_counter()
    for phase, epochs in (("critic", 2), ("both", 5)):
        for epoch in range(epochs):
            for o, a, r in data:
                agent.update(o, a, r, train_actor=(phase == "both"))
                samples += BATCH
            print(phase, epoch, "critic %.4f actor %.4f" % (
                agent.critic_loss.result().numpy(), agent.actor_loss.result().numpy()))
            agent.critic_loss.reset_state()
            agent.actor_loss.reset_state()
    toc = time.perf_counter()
    print("WORK", samples)
    print("TRAIN_SECONDS %.3f" % (toc - tic))


if __name__ == "__main__":
    main()
