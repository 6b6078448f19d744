"""PPO on a batch of foraging worlds; keeps what it needs to resume after a crash."""
import os
import tempfile
import time
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import numpy as np
import tensorflow as tf
import keras
from keras import layers

SIZE, ENVS, T, ACTIONS = 9, 64, 16, 4


class Foraging:
    def __init__(self, n, rng):
        self.n, self.rng = n, rng
        self.food = rng.random((n, SIZE, SIZE)) < 0.15
        self.pos = rng.integers(0, SIZE, (n, 2))
        self.moves = np.array([(0, 1), (0, -1), (1, 0), (-1, 0)])

    def observe(self):
        me = np.zeros((self.n, SIZE, SIZE), "float32")
        me[np.arange(self.n), self.pos[:, 0], self.pos[:, 1]] = 1
        return np.stack([self.food.astype("float32"), me], -1)

    def step(self, a):
        self.pos = (self.pos + self.moves[a]) % SIZE
        i = (np.arange(self.n), self.pos[:, 0], self.pos[:, 1])
        reward = self.food[i].astype("float32")
        self.food[i] = False
        self.food |= self.rng.random(self.food.shape) < 0.003
        return reward


def policy_net():
    inp = keras.Input((SIZE, SIZE, 2))
    h = layers.Conv2D(16, 3, padding="same", activation="relu")(inp)
    h = layers.Dense(96, activation="relu")(layers.Flatten()(h))
    return keras.Model(inp, [layers.Dense(ACTIONS)(h), layers.Dense(1)(h)])


rng = np.random.default_rng(1)
net, opt = policy_net(), keras.optimizers.Adam(7e-4)
opt.build(net.trainable_variables)
infer = tf.function(lambda o: net(o))


@tf.function
def ppo_step(obs, act, old_logp, adv, ret):
    with tf.GradientTape() as tape:
        logits, v = net(obs, training=True)
        logp_all = tf.nn.log_softmax(logits)
        logp = tf.gather(logp_all, act, batch_dims=1)
        ratio = tf.exp(logp - old_logp)
        pg = -tf.reduce_mean(tf.minimum(ratio * adv, tf.clip_by_value(ratio, 0.8, 1.2) * adv))
        ent = -tf.reduce_mean(tf.reduce_sum(tf.exp(logp_all) * logp_all, 1))
        loss = pg + 0.5 * tf.reduce_mean((v[:, 0] - ret) ** 2) - 0.01 * ent
    opt.apply_gradients(zip(tape.gradient(loss, net.trainable_variables), net.trainable_variables))
    return loss


def collect(world):
    obs, act, logp, rew, val = [], [], [], [], []
    for _ in range(T):
        o = world.observe()
        logits, v = infer(tf.constant(o))
        lp = tf.nn.log_softmax(logits).numpy()
        a = (lp + rng.gumbel(size=lp.shape)).argmax(1)
        obs.append(o), act.append(a), logp.append(lp[np.arange(ENVS), a]), val.append(v.numpy()[:, 0])
        rew.append(world.step(a))
    ret, g = np.zeros((T, ENVS), "float32"), val[-1]
    for k in reversed(range(T)):
        g = ret[k] = rew[k] + 0.95 * g
    flat = lambda z, dt: np.concatenate(z).astype(dt)
    return flat(obs, "float32"), flat(act, "int32"), flat(logp, "float32"), ret.reshape(-1), flat(val, "float32"), np.mean(rew)


def snapshot(folder, history):
    np.savez_compressed(os.path.join(folder, "resume.npz"), obs=np.stack(history),
                        **{f"p{i}": v.numpy() for i, v in enumerate(net.trainable_variables)})


history, updates = [], 0
world = Foraging(ENVS, rng)
with tempfile.TemporaryDirectory() as folder:
    t0 = time.perf_counter()
    for it in range(64):
        obs, act, lp, ret, val, score = collect(world)
        history = (history + [obs])[-48:]
        adv = ret - val
        adv = (adv - adv.mean()) / (adv.std() + 1e-6)
        for _ in range(2):
            for part in np.array_split(rng.permutation(len(act)), 4):
                ppo_step(*(tf.constant(z[part]) for z in (obs, act, lp, adv, ret)))
                updates += 1
        if it % 4 == 3:
            snapshot(folder, history)
            print("iteration", it, "reward per step %.3f" % score)
    secs = time.perf_counter() - t0
print("WORK", updates)
print("TRAIN_SECONDS %.3f" % secs)
