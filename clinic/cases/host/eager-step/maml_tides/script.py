"""Meta-learning of tide curves: each harbour is a task, five gauge readings to adapt, twenty to judge."""
import dataclasses
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import numpy as np
import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Settings:
    harbours: int = 4
    shots: int = 5
    queries: int = 20
    inner_lr: float = 0.02
    inner_steps: int = 2
    outer_lr: float = 2e-3
    meta_steps: int = 105
    width: int = 48
    seed: int = 4


def harbour_batch(rng, n, k):
    amp = rng.uniform(0.4, 3.0, (n, 1, 1))
    phase = rng.uniform(0, np.pi, (n, 1, 1))
    t = rng.uniform(-5, 5, (n, k, 1))
    return t.astype("float32"), (amp * np.sin(t + phase)).astype("float32")


class MetaLearner(tf.Module):
    def __init__(self, s: Settings):
        super().__init__()
        self.s = s
        init = tf.keras.initializers.GlorotUniform(seed=s.seed)
        dims = [1, s.width, s.width, 1]
        self.theta = []
        for a, b in zip(dims[:-1], dims[1:]):
            self.theta += [tf.Variable(init((a, b))), tf.Variable(tf.zeros([b]))]
        self.opt = tf.keras.optimizers.Adam(s.outer_lr)
        self.opt.build(self.theta)

    @tf.function
    def curve(self, w, t):
        h = tf.tanh(t @ w[0] + w[1])
        h = tf.tanh(h @ w[2] + w[3])
        return h @ w[4] + w[5]

    def adapt(self, t, y):
        fast = [tf.identity(v) for v in self.theta]
        for _ in range(self.s.inner_steps):
            with tf.GradientTape() as tape:
                tape.watch(fast)
                err = tf.reduce_mean(tf.square(self.curve(fast, t) - y))
            fast = [w - self.s.inner_lr * g for w, g in zip(fast, tape.gradient(err, fast))]
        return fast

    def outer(self, ts, ys, tq, yq):
        with tf.GradientTape() as tape:
            losses = []
            for i in range(self.s.harbours):
                fast = self.adapt(ts[i], ys[i])
                losses.append(tf.reduce_mean(tf.square(self.curve(fast, tq[i]) - yq[i])))
            loss = tf.add_n(losses) / self.s.harbours
        grads, _ = tf.clip_by_global_norm(tape.gradient(loss, self.theta), 10.0)
        self.opt.apply_gradients(zip(grads, self.theta))
        return loss


def main():
    s = Settings()
    rng = np.random.default_rng(s.seed)
    learner = MetaLearner(s)
    meter = tf.keras.metrics.Mean()
    for i in range(s.meta_steps):
        t, y = harbour_batch(rng, s.harbours, s.shots + s.queries)
        t, y = tf.constant(t), tf.constant(y)
        loss = learner.outer(t[:, :s.shots], y[:, :s.shots], t[:, s.shots:], y[:, s.shots:])
        meter.update_state(loss)
        if (i + 1) % 35 == 0:
            print(f"meta step {i + 1:4d}  query mse {meter.result().numpy():.4f}")
            meter.reset_state()


if __name__ == "__main__":
    main()
