"""User verification from keystroke timings; the negative log-likelihood of a mixture density head."""
import time

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(21)
N, FEATURES, USERS, MIX = 60000, 31, 40, 4

rng = np.random.default_rng(21)
who = rng.integers(0, USERS, N)
style = rng.gamma(2.0, 60.0, (USERS, FEATURES))
raw = (style[who] * rng.lognormal(0, 0.25, (N, FEATURES))).astype(np.float32)
next_hold = (style[who, 0] * 0.5 + 0.2 * raw[:, 1] + rng.normal(0, 5, N)).astype(np.float32)
mean, std = np.log1p(raw).mean(0), np.log1p(raw).std(0)


def normalise(x, u, y):
    x = tf.math.log1p(tf.clip_by_value(x, 0.0, 2000.0))
    x = (x - mean) / std
    return x, tf.one_hot(u, USERS), tf.math.log1p(tf.maximum(y, 0.0))


def pipeline(batch):
    ds = tf.data.Dataset.from_tensor_slices((raw, who.astype(np.int32), next_hold))
    ds = ds.shuffle(10000, seed=1)
    ds = ds.map(normalise, num_parallel_calls=tf.data.AUTOTUNE)
    return ds.batch(batch, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


class DensityHead(tf.keras.layers.Layer):
    def __init__(self, components):
        super().__init__()
        self.logits = tf.keras.layers.Dense(components)
        self.mu = tf.keras.layers.Dense(components)
        self.log_sigma = tf.keras.layers.Dense(components)

    def call(self, h):
        return tf.nn.log_softmax(self.logits(h)), self.mu(h), tf.clip_by_value(self.log_sigma(h), -4.0, 2.0)


trunk = tf.keras.Sequential([tf.keras.layers.Dense(64, activation="relu"),
                             tf.keras.layers.Dense(64, activation="relu")])
head = DensityHead(MIX)
optimizer = tf.keras.optimizers.RMSprop(1e-3)


@tf.function
def train_step(x, u, y):
    with tf.GradientTape() as tape:
        logw, mu, ls = head(trunk(tf.concat([x, u], 1)))
        logp = -0.5 * tf.square((y[:, None] - mu) / tf.exp(ls)) - ls - 0.919
        nll = -tf.reduce_mean(tf.reduce_logsumexp(logw + logp, axis=1))
    variables = trunk.trainable_variables + head.trainable_variables
    optimizer.apply_gradients(zip(tape.gradient(nll, variables), variables))
    return nll


def main(epochs=4, batch=256):
    ds = pipeline(batch)
    count = 0
    tic = time.perf_counter()
    for epoch in range(epochs):
        total = tf.constant(0.0)
        for i, (x, u, y) in enumerate(ds):
            total += train_step(x, u, y)
        count += (i + 1) * batch
        print(f"epoch {epoch}: nll {total.numpy() / (i + 1):.4f}")
    toc = time.perf_counter()
    print("WORK", count)
    print("TRAIN_SECONDS", toc - tic)


main()
