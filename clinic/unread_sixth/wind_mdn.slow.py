# Day-ahead wind farm output as a mixture of diagonal Gaussians over the 24 hourly values.
import math
from dataclasses import dataclass, asdict

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers


@dataclass
class MDNConfig:
    hours: int = 24
    features: int = 40
    components: int = 8
    width: int = 256
    batch: int = 256
    epochs: int = 60
    lr: float = 1e-3


cfg = MDNConfig()
print(asdict(cfg))


def load_farm(n=30000, seed=5):
    """Stand-in for the SCADA export: features per day-ahead run, output in MW (farm is rated 90 MW)."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, cfg.features)).astype(np.float32)
    w = rng.standard_normal((cfg.features, cfg.hours)).astype(np.float32) / math.sqrt(cfg.features)
    speed = 8.0 + 3.0 * (x @ w) + rng.normal(0, 1.0, (n, 1))
    mw = 90.0 / (1.0 + np.exp(-(speed - 9.0) * 0.7))
    mw += rng.normal(0, 2.0, mw.shape)
    return x, mw.astype(np.float32)


class MixtureDensityNet(keras.Model):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        k, h = cfg.components, cfg.hours
        self.trunk = keras.Sequential([
            keras.Input((cfg.features,)),
            layers.Dense(cfg.width, activation="relu"),
            layers.Dense(cfg.width, activation="relu"),
        ])
        self.to_logits = layers.Dense(k)
        self.to_mu = keras.Sequential([keras.Input((cfg.width,)), layers.Dense(k * h), layers.Reshape((k, h))])
        self.to_sigma = keras.Sequential([keras.Input((cfg.width,)), layers.Dense(k * h), layers.Reshape((k, h))])
        self.nll = keras.metrics.Mean(name="nll")

    @property
    def metrics(self):
        return [self.nll]

    def call(self, x, training=False):
        h = self.trunk(x, training=training)
        sigma = tf.nn.softplus(self.to_sigma(h)) + 1e-2
        return self.to_logits(h), self.to_mu(h), sigma

    def mixture_loss(self, y, logits, mu, sigma):
        z = (y[:, None, :] - mu) / sigma
        pi = tf.nn.softmax(logits, axis=-1)
        pdf = tf.exp(-0.5 * tf.square(z)) / (sigma * math.sqrt(2.0 * math.pi))
        joint = tf.reduce_prod(pdf, axis=-1)
        likelihood = tf.reduce_sum(pi * joint, axis=-1)
        return -tf.reduce_mean(tf.math.log(likelihood))

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            logits, mu, sigma = self(x, training=True)
            loss = self.mixture_loss(y, logits, mu, sigma)
        grads = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.trainable_variables))
        self.nll.update_state(loss)
        return {"nll": self.nll.result()}

    def test_step(self, data):
        x, y = data
        logits, mu, sigma = self(x, training=False)
        self.nll.update_state(self.mixture_loss(y, logits, mu, sigma))
        return {"nll": self.nll.result()}


def pipeline(x, y, train):
    ds = tf.data.Dataset.from_tensor_slices((x, y))
    if train:
        ds = ds.shuffle(len(x))
    return ds.batch(cfg.batch).prefetch(tf.data.AUTOTUNE)


x, y = load_farm()
split = int(0.9 * len(x))
train_ds = pipeline(x[:split], y[:split], True)
valid_ds = pipeline(x[split:], y[split:], False)

model = MixtureDensityNet(cfg)
model.compile(optimizer=keras.optimizers.Adam(cfg.lr, clipnorm=5.0))
model.fit(train_ds, validation_data=valid_ds, validation_freq=5, epochs=cfg.epochs, verbose=2)

logits, mu, sigma = model.predict(x[split:], batch_size=1024, verbose=0)
best = logits.argmax(axis=-1)
point = mu[np.arange(len(best)), best]
print("MAE of the top component (MW):", np.abs(point - y[split:]).mean())
model.save_weights("wind_mdn.weights.h5")
