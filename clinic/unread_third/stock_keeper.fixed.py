"""Advantage actor-critic for a one-shelf inventory problem."""
import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

N_ACTIONS = 6
GAMMA = 0.97


class Shelf:
    def __init__(self, seed=0):
        self.rng = np.random.default_rng(seed)

    def reset(self):
        self.stock, self.day = 10.0, 0
        return self._obs()

    def _obs(self):
        return np.array([self.stock / 20, np.sin(self.day), np.cos(self.day)], np.float32)

    def step(self, order):
        demand = self.rng.poisson(4)
        sold = min(self.stock, demand)
        self.stock = min(self.stock - sold + 2 * order, 20.0)
        self.day += 1
        reward = 1.0 * sold - 0.1 * self.stock - 0.3 * order
        return self._obs(), reward, self.day >= 120


def actor_critic():
    obs = layers.Input((3,))
    h = layers.Dense(128, activation="relu")(obs)
    h = layers.Dense(128, activation="relu")(h)
    probs = layers.Dense(N_ACTIONS, activation="softmax")(h)
    value = layers.Dense(1)(h)
    return keras.Model(obs, [probs, value])


net = actor_critic()
opt = keras.optimizers.Adam(7e-4)
opt.build(net.trainable_variables)
act = tf.function(lambda o: net(o, training=False)[0])


@tf.function(reduce_retracing=True)
def update(obs, actions, returns):
    with tf.GradientTape() as tape:
        probs, value = net(obs, training=True)
        adv = returns - value[:, 0]
        logp = tf.math.log(tf.gather(probs, actions, batch_dims=1) + 1e-8)
        entropy = -tf.reduce_sum(probs * tf.math.log(probs + 1e-8), axis=1)
        loss = tf.reduce_mean(
            -logp * tf.stop_gradient(adv) + 0.5 * tf.square(adv) - 0.01 * entropy)
    opt.apply_gradients(zip(tape.gradient(loss, net.trainable_variables),
                            net.trainable_variables))


def discounted(rewards):
    out, acc = np.zeros(len(rewards), np.float32), 0.0
    for i in reversed(range(len(rewards))):
        acc = rewards[i] + GAMMA * acc
        out[i] = acc
    return out


env, rng = Shelf(), np.random.default_rng(2)
for episode in range(400):
    obs, done = env.reset(), False
    seen, taken, rewards = [], [], []
    while not done:
        probs = act(tf.constant(obs[None]))
        p = probs.numpy()[0].astype("float64")
        action = rng.choice(N_ACTIONS, p=p / p.sum())
        seen.append(obs)
        taken.append(action)
        obs, reward, done = env.step(action)
        rewards.append(reward)
    update(tf.constant(np.stack(seen)), tf.constant(taken, tf.int32),
           tf.constant(discounted(rewards)))
    if episode % 20 == 0:
        print(episode, sum(rewards))
