"""beta-VAE on synthetic stellar spectra; watches weights and gradient norms in TensorBoard."""
import os
import tempfile
import time
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import numpy as np
import tensorflow as tf
import keras
from keras import layers

BINS, LATENT = 256, 10


def spectra(n, seed=0):
    rng = np.random.default_rng(seed)
    lam = np.linspace(0, 1, BINS)
    temp = rng.uniform(0.5, 2.0, (n, 1))
    flux = np.exp(-((lam - 0.4 * temp) ** 2) / 0.1)
    for c in (0.2, 0.37, 0.55, 0.81):
        depth = rng.uniform(0, 0.5, (n, 1))
        flux -= depth * np.exp(-((lam - c) ** 2) / 2e-4) * flux
    return (flux + 0.02 * rng.normal(size=flux.shape)).astype("float32")


class VAE(keras.Model):
    def __init__(self):
        super().__init__()
        self.encoder = keras.Sequential([layers.Dense(256, activation="relu"), layers.Dense(128, activation="relu"),
                                         layers.Dense(2 * LATENT)])
        self.decoder = keras.Sequential([layers.Dense(128, activation="relu"), layers.Dense(256, activation="relu"),
                                         layers.Dense(BINS)])

    def call(self, x):
        mean, logvar = tf.split(self.encoder(x), 2, axis=1)
        z = mean + tf.random.normal(tf.shape(mean)) * tf.exp(0.5 * logvar)
        kl = -0.5 * tf.reduce_mean(tf.reduce_sum(1 + logvar - mean ** 2 - tf.exp(logvar), 1))
        return self.decoder(z), kl


class Trainer:
    def __init__(self, logdir, beta=0.01, log_every=4):
        self.vae, self.beta, self.log_every = VAE(), beta, log_every
        self.vae(tf.zeros((1, BINS)))
        self.opt = keras.optimizers.Adam(1e-3)
        self.opt.build(self.vae.trainable_variables)
        self.writer = tf.summary.create_file_writer(logdir)

    @tf.function
    def train_step(self, x):
        with tf.GradientTape() as tape:
            rec, kl = self.vae(x)
            loss = tf.reduce_mean((rec - x) ** 2) + self.beta * kl
        grads = tape.gradient(loss, self.vae.trainable_variables)
        self.opt.apply_gradients(zip(grads, self.vae.trainable_variables))
        return loss, grads

    def log(self, step, loss, grads):
        with self.writer.as_default(step=step):
            tf.summary.scalar("loss", loss)
            for v, g in zip(self.vae.trainable_variables, grads):
                tf.summary.histogram("weights/" + v.path, v)
                tf.summary.scalar("grad_norm/" + v.path, tf.norm(g))

    def fit(self, ds, epochs):
        step = 0
        for epoch in range(epochs):
            for x in ds:
                loss, grads = self.train_step(x)
                if step % self.log_every == 0:
                    self.log(step, loss, grads)
                step += 1
            print("epoch %d loss %.5f" % (epoch, float(loss)))
        self.writer.flush()
        return step


data = spectra(6400)
pipe = tf.data.Dataset.from_tensor_slices(data).cache().shuffle(6400).batch(128, drop_remainder=True).prefetch(2)
with tempfile.TemporaryDirectory() as d:
    trainer = Trainer(d)
    t0 = time.perf_counter()
    n = trainer.fit(pipe, epochs=6)
    secs = time.perf_counter() - t0
print("WORK", n * 128)
print("TRAIN_SECONDS %.3f" % secs)
