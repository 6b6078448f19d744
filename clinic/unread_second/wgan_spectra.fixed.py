"""WGAN-GP for synthetic Raman spectra."""
import numpy as np
import tensorflow as tf
from tensorflow.keras import layers, Model, optimizers

config = {
    "length": 256,
    "latent": 32,
    "batch": 64,
    "n_critic": 5,
    "gp": 10.0,
    "steps": 3000,
    "log_every": 250,
}


def spectra(n, length):
    rng = np.random.default_rng(0)
    grid = np.linspace(0, 1, length)
    out = np.zeros((n, length))
    for c, w, a in ((0.2, 0.01, 1.0), (0.45, 0.03, 0.6), (0.7, 0.015, 0.9)):
        mu = c + 0.01 * rng.standard_normal((n, 1))
        out += a * rng.uniform(0.5, 1, (n, 1)) * np.exp(-((grid - mu) / w) ** 2)
    return out.astype("float32")


def make_generator(cfg):
    z = layers.Input((cfg["latent"],))
    x = layers.Dense(cfg["length"] // 8 * 32, activation="relu")(z)
    x = layers.Reshape((cfg["length"] // 8, 32))(x)
    for ch in (32, 16, 8):
        x = layers.Conv1DTranspose(ch, 5, strides=2, padding="same", activation="relu")(x)
    x = layers.Conv1D(1, 5, padding="same")(x)
    return Model(z, layers.Flatten()(x), name="G")


def make_critic(cfg):
    s = layers.Input((cfg["length"],))
    x = layers.Reshape((cfg["length"], 1))(s)
    for ch in (16, 32, 64):
        x = layers.Conv1D(ch, 5, strides=2, padding="same")(x)
        x = layers.LeakyReLU(0.2)(x)
    return Model(s, layers.Dense(1)(layers.Flatten()(x)), name="D")


class WGAN:
    def __init__(self, cfg):
        self.cfg = cfg
        self.G, self.D = make_generator(cfg), make_critic(cfg)
        self.g_opt = optimizers.Adam(1e-4, beta_1=0.0, beta_2=0.9)
        self.d_opt = optimizers.Adam(1e-4, beta_1=0.0, beta_2=0.9)
        self.g_opt.build(self.G.trainable_variables)
        self.d_opt.build(self.D.trainable_variables)

    def gradient_penalty(self, real, fake):
        eps = tf.random.uniform((tf.shape(real)[0], 1))
        mix = eps * real + (1 - eps) * fake
        with tf.GradientTape() as t:
            t.watch(mix)
            score = self.D(mix, training=True)
        g = t.gradient(score, mix)
        norm = tf.sqrt(tf.reduce_sum(g * g, axis=1) + 1e-12)
        return tf.reduce_mean((norm - 1.0) ** 2)

    @tf.function
    def train_step(self, real):
        n = self.cfg["batch"]
        for _ in range(self.cfg["n_critic"]):
            z = tf.random.normal((n, self.cfg["latent"]))
            with tf.GradientTape() as tape:
                fake = self.G(z, training=True)
                d_loss = tf.reduce_mean(self.D(fake, training=True)) \
                    - tf.reduce_mean(self.D(real, training=True))
                d_loss += self.cfg["gp"] * self.gradient_penalty(real, fake)
            grads = tape.gradient(d_loss, self.D.trainable_variables)
            self.d_opt.apply_gradients(zip(grads, self.D.trainable_variables))
        with tf.GradientTape() as tape:
            z = tf.random.normal((n, self.cfg["latent"]))
            g_loss = -tf.reduce_mean(self.D(self.G(z, training=True), training=True))
        grads = tape.gradient(g_loss, self.G.trainable_variables)
        self.g_opt.apply_gradients(zip(grads, self.G.trainable_variables))
        return d_loss, g_loss

    def fit(self, ds):
        for step, batch in enumerate(ds.take(self.cfg["steps"])):
            d, g = self.train_step(batch)
            if step % self.cfg["log_every"] == 0:
                print(f"{step:6d}  critic {float(d):.4f}  gen {float(g):.4f}")


if __name__ == "__main__":
    x = spectra(20000, config["length"])
    ds = tf.data.Dataset.from_tensor_slices(x).shuffle(20000).repeat()
    ds = ds.batch(config["batch"], drop_remainder=True).prefetch(2)
    WGAN(config).fit(ds)
