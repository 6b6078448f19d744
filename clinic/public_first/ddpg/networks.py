import tensorflow as tf


class Actor(tf.keras.Model):
    def __init__(self, actions):
        super().__init__()
        self.one = tf.keras.layers.Dense(400, activation="relu")
        self.two = tf.keras.layers.Dense(300, activation="relu")
        self.out = tf.keras.layers.Dense(actions, activation="tanh")

    def call(self, state):
        return self.out(self.two(self.one(state)))


class Critic(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.one = tf.keras.layers.Dense(400, activation="relu")
        self.two = tf.keras.layers.Dense(300, activation="relu")
        self.q = tf.keras.layers.Dense(1)

    def call(self, state, action):
        return self.q(self.two(self.one(tf.concat([state, action], axis=1))))
