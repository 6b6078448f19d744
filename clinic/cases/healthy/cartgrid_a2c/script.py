"""Advantage actor-critic on many cart-poles at once; physics, rollout and update are one graph."""
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import tensorflow as tf
from tensorflow import keras

ENVS, HORIZON, UPDATES = 512, 16, 70


def physics(s, push):
    x, dx, th, dth = tf.unstack(s, axis=1)
    force = tf.where(push == 1, 10.0, -10.0)
    c, sn = tf.cos(th), tf.sin(th)
    tmp = (force + 0.05 * dth ** 2 * sn) / 1.1
    ddth = (9.8 * sn - c * tmp) / (0.5 * (4.0 / 3.0 - 0.1 * c ** 2 / 1.1))
    ddx = tmp - 0.05 * ddth * c / 1.1
    return tf.stack([x + 0.02 * dx, dx + 0.02 * ddx, th + 0.02 * dth, dth + 0.02 * ddth], axis=1)


class Agent:
    def __init__(self):
        i = keras.Input((4,))
        h = i
        for _ in range(3):
            h = keras.layers.Dense(384, activation="relu")(h)
        self.net = keras.Model(i, [keras.layers.Dense(2)(h), keras.layers.Dense(1)(h)])
        self.opt = keras.optimizers.Adam(7e-4, clipnorm=0.5)
        self.opt.build(self.net.trainable_variables)
        self.state = tf.Variable(tf.random.uniform([ENVS, 4], -0.05, 0.05, seed=1))

    def fresh(self, n):
        return tf.random.uniform([n, 4], -0.05, 0.05)

    @tf.function
    def cycle(self):
        seen, acts, alive = (tf.TensorArray(t, HORIZON) for t in (tf.float32, tf.int32, tf.float32))
        s = self.state.read_value()
        for t in tf.range(HORIZON):
            logits, _ = self.net(s)
            a = tf.random.categorical(logits, 1, dtype=tf.int32)[:, 0]
            seen, acts = seen.write(t, s), acts.write(t, a)
            nxt = physics(s, a)
            ok = (tf.abs(nxt[:, 0]) < 2.4) & (tf.abs(nxt[:, 2]) < 0.21)
            alive = alive.write(t, tf.cast(ok, tf.float32))
            s = tf.where(ok[:, None], nxt, self.fresh(ENVS))
        self.state.assign(s)
        live = alive.stack()
        _, boot = self.net(s)
        back = tf.scan(lambda r, m: 1.0 + 0.99 * r * m - (1.0 - m), live, boot[:, 0], reverse=True)
        obs, act, ret = tf.reshape(seen.stack(), [-1, 4]), tf.reshape(acts.stack(), [-1]), tf.reshape(back, [-1])
        with tf.GradientTape() as tape:
            logits, value = self.net(obs, training=True)
            logp = tf.nn.log_softmax(logits)
            adv = tf.stop_gradient(ret - value[:, 0])
            adv = (adv - tf.reduce_mean(adv)) / (tf.math.reduce_std(adv) + 1e-6)
            policy = -tf.reduce_mean(tf.gather(logp, act, batch_dims=1) * adv)
            entropy = -tf.reduce_mean(tf.reduce_sum(tf.exp(logp) * logp, 1))
            loss = policy + 0.05 * tf.reduce_mean(tf.square(ret - value[:, 0])) - 0.01 * entropy
        g = tape.gradient(loss, self.net.trainable_variables)
        self.opt.apply_gradients(zip(g, self.net.trainable_variables))
        return loss, tf.reduce_mean(live)


agent = Agent()
for k in range(UPDATES):
    loss, upright = agent.cycle()
    if (k + 1) % 14 == 0:
        print(f"update {k + 1}: loss {loss.numpy():.4f}, upright share {upright.numpy():.4f}")
