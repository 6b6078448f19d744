"""PPO for a simulated market maker: a vectorised simulator and one update phase per rollout."""
import time

import numpy as np
import tensorflow as tf

ENVS, HORIZON, OBS, ACTIONS = 512, 16, 24, 9


class Market:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.obs = self.rng.normal(size=(ENVS, OBS)).astype(np.float32)

    def step(self, action):
        edge = 0.1 * (action - 4)
        reward = edge * self.obs[:, 0] - 0.02 * edge ** 2
        self.obs = (0.9 * self.obs + 0.4 * self.rng.standard_normal(self.obs.shape)).astype(np.float32)
        return self.obs, reward.astype(np.float32)


class ActorCritic(tf.keras.Model):
    def __init__(self, width=512):
        super().__init__()
        self.trunk = [tf.keras.layers.Dense(width, activation="relu") for _ in range(3)]
        self.pi, self.v = tf.keras.layers.Dense(ACTIONS), tf.keras.layers.Dense(1)

    def call(self, x):
        for layer in self.trunk:
            x = layer(x)
        return self.pi(x), self.v(x)[:, 0]


class PPO:
    def __init__(self):
        self.net, self.opt = ActorCritic(), tf.keras.optimizers.Adam(2e-4)

    @tf.function
    def act(self, obs):
        logits, v = self.net(obs)
        a = tf.random.categorical(logits, 1)[:, 0]
        logp = tf.gather(tf.nn.log_softmax(logits), a, axis=1, batch_dims=1)
        return a, logp, v

    @tf.function
    def update(self, obs, a, logp_old, ret, adv):
        with tf.GradientTape() as tape:
            logits, v = self.net(obs)
            logp = tf.gather(tf.nn.log_softmax(logits), a, axis=1, batch_dims=1)
            ratio = tf.exp(logp - logp_old)
            surrogate = tf.minimum(ratio * adv, tf.clip_by_value(ratio, 0.8, 1.2) * adv)
            loss = -tf.reduce_mean(surrogate) + 0.5 * tf.reduce_mean((ret - v) ** 2)
        g, _ = tf.clip_by_global_norm(tape.gradient(loss, self.net.trainable_variables), 0.5)
        self.opt.apply_gradients(zip(g, self.net.trainable_variables))
        return loss


def rollout(market, agent):
    store = []
    for _ in range(HORIZON):
        obs = market.obs
        a, logp, v = agent.act(obs)
        _, r = market.step(a.numpy())
        store.append((obs, a.numpy(), logp.numpy(), r, v.numpy()))
    obs, a, logp, r, v = (np.stack(s) for s in zip(*store))
    ret, acc = np.zeros_like(r), v[-1]
    for t in reversed(range(HORIZON)):
        acc = r[t] + 0.95 * acc
        ret[t] = acc
    adv = ret - v
    flat = lambda z: z.reshape((-1,) + z.shape[2:])
    return [flat(z) for z in (obs, a, logp, ret, (adv - adv.mean()) / (adv.std() + 1e-6))]


def main(rounds=5, passes=6, batch=2048):
    market, agent, rng, n = Market(0), PPO(), np.random.default_rng(1), 0
    begin = time.perf_counter()
    for k in range(rounds):
        data = rollout(market, agent)
        for _ in range(passes):
            order = rng.permutation(len(data[0]))
            for i in range(0, len(order), batch):
                loss = agent.update(*(d[order[i:i + batch]] for d in data))
                n += batch
        print(f"round {k}: loss {float(loss):.4f} mean return {data[3].mean():.4f}")
    print("WORK", n)
    print("TRAIN_SECONDS", time.perf_counter() - begin)


if __name__ == "__main__":
    main()
