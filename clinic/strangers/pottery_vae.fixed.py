# beta-VAE on silhouettes of ancient vases, beta grows over the epochs
import time
import numpy as np
import tensorflow as tf
from tensorflow import keras

LATENT = 8
EPOCHS = 13


def vases(n, size=32, seed=0):
    rng = np.random.default_rng(seed)
    h = np.linspace(0, 1, size)
    k = np.arange(1, 4)
    amp = rng.normal(0, 0.12, (n, 3, 1))
    radius = 0.5 + (amp * np.sin(np.pi * k[:, None] * h)).sum(1)
    x = np.abs(np.linspace(-1, 1, size))
    return (x[None, None] < radius[:, :, None]).astype("float32").reshape(n, -1)


class VAE(keras.Model):
    def __init__(self, pixels):
        super().__init__()
        self.enc = keras.Sequential([keras.layers.Dense(256, activation="relu"),
                                     keras.layers.Dense(128, activation="relu"),
                                     keras.layers.Dense(2 * LATENT)])
        self.dec = keras.Sequential([keras.layers.Dense(128, activation="relu"),
                                     keras.layers.Dense(256, activation="relu"),
                                     keras.layers.Dense(pixels)])

    def call(self, x):
        mean, logvar = tf.split(self.enc(x), 2, axis=1)
        z = mean + tf.exp(0.5 * logvar) * tf.random.normal(tf.shape(mean))
        return self.dec(z), mean, logvar


class Trainer:
    def __init__(self, data, batch_size):
        self.data = tf.data.Dataset.from_tensor_slices(data).shuffle(len(data)).batch(batch_size).prefetch(2)
        self.vae = VAE(data.shape[1])
        self.vae(data[:2])
        self.opt = keras.optimizers.Adam(1e-3)
        self.opt.build(self.vae.trainable_variables)
        self.steps = 0

    @tf.function
    def train_step(self, x, beta):
        with tf.GradientTape() as tape:
            logits, mean, logvar = self.vae(x)
            rec = tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(labels=x, logits=logits), axis=1)
            kl = -0.5 * tf.reduce_sum(1 + logvar - mean ** 2 - tf.exp(logvar), axis=1)
            loss = tf.reduce_mean(rec + beta * kl)
        grads = tape.gradient(loss, self.vae.trainable_variables)
        grads, _ = tf.clip_by_global_norm(grads, 5.0)
        self.opt.apply(grads)
        return loss

    def epoch(self, beta):
        mean = keras.metrics.Mean()
        for x in self.data:
            mean.update_state(self.train_step(x, beta))
            self.steps += 1
        return float(mean.result())


if __name__ == "__main__":
    keras.utils.set_random_seed(6)
    trainer = Trainer(vases(3200), batch_size=128)
    t0 = time.time()
    for e in range(EPOCHS):
        beta = 4.0 * (e + 1) / EPOCHS
        loss = trainer.epoch(tf.constant(beta, tf.float32))
        if e % 5 == 4:
            print(f"epoch {e + 1} beta {beta:.2f} loss {loss:.2f}")
    t = time.time() - t0
    print(f"WORK {trainer.steps}")
    print(f"TRAIN_SECONDS {t:.2f}")
