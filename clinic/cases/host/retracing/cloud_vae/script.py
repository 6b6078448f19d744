"""A small VAE of cloud fractions with cyclical KL weight."""
import math
import time

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(4)
DIM, LATENT, STEPS, CYCLE, HOLD = 256, 8, 72, 36, 3


class VAE(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.enc = [tf.keras.layers.Dense(n, activation="relu") for n in (128,)]
        self.moments = tf.keras.layers.Dense(2 * LATENT)
        self.dec = [tf.keras.layers.Dense(n, activation="relu") for n in (128,)]
        self.out = tf.keras.layers.Dense(DIM)

    def call(self, x):
        for layer in self.enc:
            x = layer(x)
        mean, logvar = tf.split(self.moments(x), 2, -1)
        z = mean + tf.exp(0.5 * logvar) * tf.random.normal(tf.shape(mean))
        for layer in self.dec:
            z = layer(z)
        return self.out(z), mean, logvar


class Trainer:
    def __init__(self, model):
        self.model = model
        self.opt = tf.keras.optimizers.Adam(1e-3)
        self.log = []

    @tf.function
    def update(self, x, beta):
        with tf.GradientTape() as tape:
            logits, mean, logvar = self.model(x)
            rec = tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(x, logits), -1)
            kl = -0.5 * tf.reduce_sum(1 + logvar - mean**2 - tf.exp(logvar), -1)
            loss = tf.reduce_mean(rec + beta * kl)
        grads = tape.gradient(loss, self.model.trainable_variables)
        self.opt.apply_gradients(zip(grads, self.model.trainable_variables))
        return loss

    def beta_at(self, step):
        step -= step % HOLD
        pos = (step % CYCLE) / CYCLE
        return 0.02 + 0.5 * (1 - math.cos(math.pi * pos)) * (1 - 0.1 * step / STEPS)

    def run(self, ds):
        for step, x in enumerate(ds.take(STEPS)):
            loss = self.update(x, self.beta_at(step))
            if step % 10 == 0:
                self.log.append(float(loss))
                print(step, self.log[-1])


rng = np.random.default_rng(8)
base = rng.random((6, DIM))
clouds = np.clip(base[rng.integers(0, 6, 2048)] + rng.normal(0, 0.1, (2048, DIM)), 0, 1).astype("float32")
ds = tf.data.Dataset.from_tensor_slices(clouds).shuffle(2048, seed=0).repeat().batch(128).prefetch(2)
vae = VAE()
vae(clouds[:1])
t = time.time()
Trainer(vae).run(ds)
print("took", time.time() - t)
