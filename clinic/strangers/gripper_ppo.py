"""PPO on a vectorised point-gripper; environment stepped inside the graph, many epochs over each rollout."""
import time

import tensorflow as tf
from keras import Sequential, layers, optimizers

ENVS, HORIZON, OBS, ACT = 512, 32, 12, 3


def mlp(out):
    return Sequential([layers.Input((OBS,)), layers.Dense(256, "tanh"), layers.Dense(256, "tanh"), layers.Dense(out)])


class PPO:
    def __init__(self):
        self.pi, self.v = mlp(ACT), mlp(1)
        self.log_std = tf.Variable(-0.5 * tf.ones((ACT,)))
        self.vars = self.pi.trainable_variables + self.v.trainable_variables + [self.log_std]
        self.opt = optimizers.Adam(3e-4)

    def logp(self, obs, act):
        z = (act - self.pi(obs)) * tf.exp(-self.log_std)
        return -0.5 * tf.reduce_sum(z * z, -1) - tf.reduce_sum(self.log_std)

    @tf.function
    def rollout(self, obs):
        o, a, r = (tf.TensorArray(tf.float32, HORIZON) for _ in range(3))
        for t in tf.range(HORIZON):
            act = self.pi(obs) + tf.random.normal((ENVS, ACT)) * tf.exp(self.log_std)
            o, a = o.write(t, obs), a.write(t, act)
            obs = tf.concat([obs[:, :3] + 0.05 * act, obs[:, 3:6], act, obs[:, :3] - obs[:, 3:6]], 1)
            r = r.write(t, -tf.norm(obs[:, 9:] + 1e-6, axis=1))
        return obs, o.stack(), a.stack(), r.stack()

    @tf.function
    def advantage(self, obs, rew):
        ret = tf.cumsum(rew, axis=0, reverse=True) / HORIZON
        adv = ret - tf.reshape(self.v(tf.reshape(obs, (-1, OBS))), (HORIZON, ENVS))
        return ret, (adv - tf.reduce_mean(adv)) / (tf.math.reduce_std(adv) + 1e-6)

    @tf.function
    def update(self, obs, act, old, adv, ret):
        with tf.GradientTape() as tape:
            ratio = tf.exp(self.logp(obs, act) - old)
            clip = tf.clip_by_value(ratio, 0.8, 1.2)
            loss = -tf.reduce_mean(tf.minimum(ratio * adv, clip * adv))
            loss += 0.5 * tf.reduce_mean(tf.square(self.v(obs)[:, 0] - ret))
        self.opt.apply_gradients(zip(tape.gradient(loss, self.vars), self.vars))
        return loss


def main():
    agent = PPO()
    obs = tf.random.normal((ENVS, OBS))
    t0 = time.perf_counter()
    for it in range(6):
        obs, o, a, r = agent.rollout(obs)
        ret, adv = agent.advantage(o, r)
        flat = [tf.reshape(v, (-1,) + tuple(v.shape[2:])) for v in (o, a, adv, ret)]
        old = agent.logp(flat[0], flat[1])
        for _ in range(4):
            order = tf.random.shuffle(tf.range(ENVS * HORIZON))
            for part in tf.split(order, 8):
                mini = [tf.gather(v, part) for v in (flat[0], flat[1], old, flat[2], flat[3])]
                loss = agent.update(*mini)
        print(f"iter {it}: return {float(tf.reduce_mean(r)):.3f} loss {float(loss):.3f} {time.perf_counter() - t0:.1f}s")


if __name__ == "__main__":
    main()
