"""TD3+BC (Fujimoto & Gu, 2021) on D4RL locomotion data, TensorFlow port of our old code."""
import argparse
import copy
import time

import h5py
import numpy as np
import tensorflow as tf
import keras
from keras import layers


class Transitions:
    def __init__(self, path, seed):
        with h5py.File(path, "r") as f:
            self.obs = f["observations"][:].astype(np.float32)
            self.act = f["actions"][:].astype(np.float32)
            self.rew = f["rewards"][:].astype(np.float32)[:, None]
            self.next_obs = f["next_observations"][:].astype(np.float32)
            self.not_done = 1.0 - f["terminals"][:].astype(np.float32)[:, None]
        self.size = len(self.obs)
        self.rng = np.random.default_rng(seed)

    def normalize(self, eps=1e-3):
        mean, std = self.obs.mean(0), self.obs.std(0) + eps
        self.obs = (self.obs - mean) / std
        self.next_obs = (self.next_obs - mean) / std
        return mean, std

    def sample(self, n):
        idx = self.rng.integers(0, self.size, size=n)
        return (
            tf.convert_to_tensor(self.obs[idx]),
            tf.convert_to_tensor(self.act[idx]),
            tf.convert_to_tensor(self.rew[idx]),
            tf.convert_to_tensor(self.next_obs[idx]),
            tf.convert_to_tensor(self.not_done[idx]),
        )


def mlp(inputs, outputs, activation=None):
    return keras.Sequential(
        [
            keras.Input((inputs,)),
            layers.Dense(256, activation="relu"),
            layers.Dense(256, activation="relu"),
            layers.Dense(outputs, activation=activation),
        ]
    )


class TD3BC:
    def __init__(self, data, args):
        self.args = args
        obs_dim, act_dim = data.obs.shape[1], data.act.shape[1]
        self.actor = mlp(obs_dim, act_dim, "tanh")
        self.q1 = mlp(obs_dim + act_dim, 1)
        self.q2 = mlp(obs_dim + act_dim, 1)
        self.targets = []
        for net in (self.actor, self.q1, self.q2):
            twin = keras.models.clone_model(net)
            twin.set_weights(copy.deepcopy(net.get_weights()))
            self.targets.append(twin)
        self.actor_opt = keras.optimizers.Adam(args.lr)
        self.critic_opt = keras.optimizers.Adam(args.lr)
        self.actor_opt.build(self.actor.trainable_variables)
        self.critic_opt.build(self.q1.trainable_variables + self.q2.trainable_variables)
        self.critic_loss = keras.metrics.Mean()
        self.actor_loss = keras.metrics.Mean()

    @tf.function(jit_compile=True)
    def update_critic(self, obs, act, rew, next_obs, not_done):
        args = self.args
        target_actor, target_q1, target_q2 = self.targets
        noise = tf.clip_by_value(tf.random.normal(tf.shape(act)) * args.noise, -0.5, 0.5)
        next_act = tf.clip_by_value(target_actor(next_obs) + noise, -1.0, 1.0)
        next_in = tf.concat([next_obs, next_act], 1)
        target = rew + not_done * args.gamma * tf.minimum(target_q1(next_in), target_q2(next_in))
        variables = self.q1.trainable_variables + self.q2.trainable_variables
        with tf.GradientTape() as tape:
            pair = tf.concat([obs, act], 1)
            loss = tf.reduce_mean((self.q1(pair) - target) ** 2) + tf.reduce_mean((self.q2(pair) - target) ** 2)
        self.critic_opt.apply(tape.gradient(loss, variables), variables)
        self.critic_loss.update_state(loss)

    @tf.function(jit_compile=True)
    def update_actor(self, obs, act):
        with tf.GradientTape() as tape:
            pi = self.actor(obs)
            q = self.q1(tf.concat([obs, pi], 1))
            weight = self.args.alpha / tf.stop_gradient(tf.reduce_mean(tf.abs(q)))
            loss = -weight * tf.reduce_mean(q) + tf.reduce_mean((pi - act) ** 2)
        variables = self.actor.trainable_variables
        self.actor_opt.apply(tape.gradient(loss, variables), variables)
        for net, twin in zip((self.actor, self.q1, self.q2), self.targets):
            for w, t in zip(net.trainable_variables, twin.trainable_variables):
                t.assign(t + self.args.tau * (w - t))
        self.actor_loss.update_state(loss)


def train(args):
    keras.utils.set_random_seed(args.seed)
    data = Transitions(args.data, args.seed)
    mean, std = data.normalize()
    agent = TD3BC(data, args)
    started = time.time()
    for step in range(1, args.steps + 1):
        batch = data.sample(args.batch)
        agent.update_critic(*batch)
        if step % 2 == 0:
            agent.update_actor(batch[0], batch[1])
        if step % 5_000 == 0:
            print(
                f"{step:8d} critic {float(agent.critic_loss.result()):9.3f} "
                f"actor {float(agent.actor_loss.result()):7.3f} {step / (time.time() - started):6.0f} it/s",
                flush=True,
            )
            agent.critic_loss.reset_state()
            agent.actor_loss.reset_state()
    agent.actor.save(args.out)
    np.savez(args.out + ".norm.npz", mean=mean, std=std)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="halfcheetah_medium-v2.hdf5")
    parser.add_argument("--out", default="td3bc_actor.keras")
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--lr", type=float, default=3e-4)
    parser.add_argument("--gamma", type=float, default=0.99)
    parser.add_argument("--tau", type=float, default=0.005)
    parser.add_argument("--noise", type=float, default=0.2)
    parser.add_argument("--alpha", type=float, default=2.5)
    parser.add_argument("--seed", type=int, default=0)
    train(parser.parse_args())
