"""Ensemble-free forward dynamics of a 7-joint arm, Gaussian head, trained on sampled transitions."""
import time

import numpy as np
import tensorflow as tf

JOINTS = 7


def rollouts(n, rng):
    q = rng.uniform(-2, 2, (n, JOINTS))
    dq = rng.normal(0, 1, (n, JOINTS))
    tau = rng.normal(0, 1, (n, JOINTS))
    coupling = np.cos(np.subtract.outer(np.arange(JOINTS), np.arange(JOINTS)))
    ddq = (tau - 0.3 * dq - np.sin(q) @ coupling) / (1.2 + np.cos(q))
    x = np.concatenate([np.sin(q), np.cos(q), dq, tau], 1).astype(np.float32)
    return x, (0.05 * ddq).astype(np.float32)


class DynamicsTrainer:
    def __init__(self, width=128, depth=2, lr=1e-3):
        net = [tf.keras.layers.Input((4 * JOINTS,))]
        net += [tf.keras.layers.Dense(width, activation="swish") for _ in range(depth)]
        net += [tf.keras.layers.Dense(2 * JOINTS)]
        self.net = tf.keras.Sequential(net)
        self.optimizer = tf.keras.optimizers.SGD(lr, momentum=0.9)
        self.optimizer.build(self.net.trainable_variables)

    @property
    def update(self):
        return tf.function(self._update)

    def _update(self, x, y):
        with tf.GradientTape() as tape:
            mean, raw = tf.split(self.net(x, training=True), 2, axis=-1)
            logvar = 2.0 - tf.nn.softplus(2.0 - raw)
            logvar = -8.0 + tf.nn.softplus(logvar + 8.0)
            nll = tf.reduce_mean(tf.square(mean - y) * tf.exp(-logvar) + logvar)
        grads = tape.gradient(nll, self.net.trainable_variables)
        grads, norm = tf.clip_by_global_norm(grads, 5.0)
        self.optimizer.apply_gradients(zip(grads, self.net.trainable_variables))
        return nll, norm

    def train(self, x, y, steps, batch, rng):
        losses = []
        for step in range(steps):
            idx = rng.integers(0, len(x), batch)
            nll, norm = self.update(x[idx], y[idx])
            losses.append(nll)
            if (step + 1) % 15 == 0:
                print(f"step {step + 1:4d}  nll {float(tf.add_n(losses[-15:]) / 15):.3f}  |g| {float(norm):.2f}")


def main():
    rng = np.random.default_rng(3)
    x, y = rollouts(50_000, rng)
    trainer = DynamicsTrainer()
    t0 = time.perf_counter()
    trainer.train(x, y, steps=60, batch=256, rng=rng)
    print(f"{time.perf_counter() - t0:.1f}s")


if __name__ == "__main__":
    main()
