import numpy as np
import tensorflow as tf
from replay import Replay


class Agent:
    def __init__(self, n_actions, lr=1e-4, batch_size=32, learn_start=10000):
        self.memory = Replay(100000)
        self.batch_size, self.learn_start, self.n_actions = batch_size, learn_start, n_actions
        self.q_eval = self.build(n_actions)
        self.q_next = self.build(n_actions)
        self.optimizer = tf.keras.optimizers.Adam(lr)
        self.loss_fn = tf.keras.losses.Huber()
        self.epsilon = 1.0

    def build(self, n_actions):
        return tf.keras.Sequential([
            tf.keras.layers.Conv2D(32, 8, 4, activation="relu", input_shape=(84, 84, 4)),
            tf.keras.layers.Conv2D(64, 4, 2, activation="relu"),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(512, activation="relu"),
            tf.keras.layers.Dense(n_actions),
        ])

    def choose(self, obs):
        if np.random.random() < self.epsilon:
            return np.random.choice(self.n_actions)
        return int(np.argmax(self.q_eval.predict(obs[None], verbose=0)))

    def learn(self):
        if len(self.memory) < self.learn_start:
            return
        obs, actions, rewards, after, dones = self.memory.sample(self.batch_size)
        target = rewards + 0.99 * tf.reduce_max(self.q_next(after), axis=1) * (1.0 - dones)
        self.fit_batch(obs, actions, target)

    @tf.function
    def fit_batch(self, obs, actions, target):
        with tf.GradientTape() as tape:
            q = tf.gather(self.q_eval(obs), actions, batch_dims=1)
            loss = self.loss_fn(target, q)
        grads = tape.gradient(loss, self.q_eval.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.q_eval.trainable_variables))
