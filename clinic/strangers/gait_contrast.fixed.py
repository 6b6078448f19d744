"""Self-supervised gait embeddings: two noisy views per window, contrastive objective."""
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers


def gait_windows(n=2688, length=72, seed=15):
    rng = np.random.default_rng(seed)
    t = np.arange(length) / length
    cadence = rng.uniform(1.5, 5.0, (n, 1))
    phase = rng.uniform(0, 2 * np.pi, (n, 1))
    x = np.sin(2 * np.pi * cadence * t + phase) + 0.4 * np.sin(4 * np.pi * cadence * t)
    return x.astype("float32")


class PairObjective:
    """Cross entropy of every view against all the others, the sibling view being the target."""

    def __init__(self, pairs, temperature=0.2):
        self.pairs, self.temperature = pairs, temperature

    def __call__(self, first, second):
        z = tf.math.l2_normalize(tf.concat([first, second], 0), axis=1)
        count = 2 * self.pairs
        sims = tf.matmul(z, z, transpose_b=True) / self.temperature
        sims = tf.linalg.set_diag(sims, tf.fill([count], -1e9))
        sibling = (tf.range(count) + self.pairs) % count
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(sibling, sims))


class GaitLearner:
    def __init__(self, length, pairs, lr=1e-3):
        self.encoder = keras.Sequential([
            layers.Input((length,)),
            layers.Dense(128, activation="relu"),
            layers.Dense(128, activation="relu"),
            layers.Dense(32),
        ])
        self.objective = PairObjective(pairs)
        self.opt = keras.optimizers.Adam(lr)
        self.opt.build(self.encoder.trainable_variables)

    def view(self, x):
        gain = tf.random.uniform([tf.shape(x)[0], 1], 0.7, 1.3)
        return gain * x + 0.1 * tf.random.normal(tf.shape(x))

    @tf.function
    def update(self, x):
        with tf.GradientTape() as tape:
            loss = self.objective(
                self.encoder(self.view(x), training=True),
                self.encoder(self.view(x), training=True),
            )
        grads = tape.gradient(loss, self.encoder.trainable_variables)
        self.opt.apply_gradients(zip(grads, self.encoder.trainable_variables))
        return loss


def main(pairs=48, epochs=5):
    x = gait_windows()
    learner = GaitLearner(x.shape[1], pairs)
    ds = tf.data.Dataset.from_tensor_slices(x).shuffle(len(x)).batch(pairs, drop_remainder=True).prefetch(2)
    t0 = time.time()
    for epoch in range(epochs):
        history = [learner.update(batch) for batch in ds]
        print("epoch %d  loss %.4f" % (epoch, np.mean([h.numpy() for h in history])))
    print("TRAIN_SECONDS %.2f" % (time.time() - t0))


if __name__ == "__main__":
    main()
