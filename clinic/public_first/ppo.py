import numpy as np
import tensorflow as tf


class PPO:
    def __init__(self, state_dim, actions):
        self.policy = tf.keras.Sequential([tf.keras.layers.Dense(64, activation="tanh"), tf.keras.layers.Dense(actions)])
        self.value = tf.keras.Sequential([tf.keras.layers.Dense(64, activation="tanh"), tf.keras.layers.Dense(1)])
        self.optimizer = tf.keras.optimizers.Adam(3e-4)

    def update(self, states, actions, old_probs, returns):
        with tf.GradientTape() as tape:
            probs = tf.nn.softmax(self.policy(states))
            p = tf.gather(probs, actions, batch_dims=1)
            advantage = returns - tf.squeeze(self.value(states), 1)
            ratio = p / old_probs
            loss = -tf.reduce_mean(tf.minimum(ratio * advantage, tf.clip_by_value(ratio, 0.8, 1.2) * advantage)) + tf.reduce_mean(advantage**2)
        variables = self.policy.trainable_variables + self.value.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))

    def learn(self, rollout, epochs=10, batch=64):
        n = len(rollout[0])
        for _ in range(epochs):
            order = np.random.permutation(n)
            for i in range(0, n, batch):
                self.update(*(part[order[i : i + batch]] for part in rollout))
