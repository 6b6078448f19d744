import tensorflow as tf
from tensorflow.keras import Model
from tensorflow.keras.layers import Dense


class Q(Model):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = Dense(256, "relu"), Dense(256, "relu"), Dense(1)

    def call(self, inputs):
        return self.c(self.b(self.a(tf.concat(inputs, -1))))


class SAC:
    def __init__(self, action_dim):
        self.q1, self.q2 = Q(), Q()
        self.pi = tf.keras.Sequential([Dense(256, "relu"), Dense(action_dim, "tanh")])
        self.q_opt, self.pi_opt = tf.keras.optimizers.Adam(3e-4), tf.keras.optimizers.Adam(3e-4)

    def update_critic(self, s, a, r, s2, d):
        target = r + 0.99 * (1 - d) * tf.minimum(self.q1([s2, self.pi(s2)]), self.q2([s2, self.pi(s2)]))
        for q in (self.q1, self.q2):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((q([s, a]) - tf.stop_gradient(target)) ** 2)
            self.q_opt.apply_gradients(zip(tape.gradient(loss, q.trainable_variables), q.trainable_variables))

    def update_actor(self, s):
        with tf.GradientTape() as tape:
            loss = -tf.reduce_mean(self.q1([s, self.pi(s)]))
        self.pi_opt.apply_gradients(zip(tape.gradient(loss, self.pi.trainable_variables), self.pi.trainable_variables))

    def train(self, batch):
        s, a, r, s2, d = (tf.convert_to_tensor(one, tf.float32) for one in batch)
        self.update_critic(s, a, r, s2, d)
        self.update_actor(s)
