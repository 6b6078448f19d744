"""Mult-VAE on implicit feedback (shop baskets), after Liang et al. 2018."""
import argparse

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers


def parse_args():
    p = argparse.ArgumentParser()
    p.add_argument("--users", type=int, default=30000)
    p.add_argument("--items", type=int, default=4000)
    p.add_argument("--latent", type=int, default=128)
    p.add_argument("--batch", type=int, default=500)
    p.add_argument("--epochs", type=int, default=40)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--beta-max", type=float, default=0.2)
    p.add_argument("--anneal-steps", type=int, default=20000)
    p.add_argument("--seed", type=int, default=98765)
    return p.parse_args()


def fake_interactions(n_users, n_items, seed):
    rng = np.random.default_rng(seed)
    pop = rng.pareto(1.2, size=n_items)
    pop /= pop.sum()
    clicks = rng.choice(n_items, size=(n_users, 60), p=pop)
    x = np.zeros((n_users, n_items), dtype=np.uint8)
    x[np.arange(n_users)[:, None], clicks] = 1
    return x


class MultVAE(keras.Model):
    def __init__(self, n_items, latent, hidden=600, dropout=0.5):
        super().__init__()
        self.latent = latent
        self.drop = layers.Dropout(dropout)
        self.enc1 = layers.Dense(hidden, activation="tanh")
        self.enc2 = layers.Dense(2 * latent)
        self.dec1 = layers.Dense(hidden, activation="tanh")
        self.dec2 = layers.Dense(n_items)

    def call(self, x, training=False):
        h = tf.math.l2_normalize(x, axis=1)
        h = self.drop(h, training=training)
        mu, logvar = tf.split(self.enc2(self.enc1(h)), 2, axis=1)
        z = mu
        if training:
            z = mu + tf.exp(0.5 * logvar) * tf.random.normal(tf.shape(mu))
        logits = self.dec2(self.dec1(z))
        kl = -0.5 * tf.reduce_sum(1 + logvar - mu ** 2 - tf.exp(logvar), axis=1)
        return logits, tf.reduce_mean(kl)


def main():
    args = parse_args()
    keras.utils.set_random_seed(args.seed)

    x = fake_interactions(args.users, args.items, args.seed)
    n_val = 2000
    train = (tf.data.Dataset.from_tensor_slices(x[n_val:])
             .shuffle(8192)
             .batch(args.batch, drop_remainder=True)
             .prefetch(tf.data.AUTOTUNE))
    val = tf.data.Dataset.from_tensor_slices(x[:n_val]).batch(args.batch).prefetch(2)

    model = MultVAE(args.items, args.latent)
    optimizer = keras.optimizers.Adam(args.lr)
    train_loss = keras.metrics.Mean()
    val_nll = keras.metrics.Mean()

    @tf.function
    def train_step(batch, beta):
        batch = tf.cast(batch, tf.float32)
        with tf.GradientTape() as tape:
            logits, kl = model(batch, training=True)
            nll = -tf.reduce_mean(
                tf.reduce_sum(tf.nn.log_softmax(logits) * batch, axis=1))
            loss = nll + beta * kl
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))
        train_loss.update_state(loss)

    @tf.function
    def val_step(batch):
        batch = tf.cast(batch, tf.float32)
        logits, _ = model(batch, training=False)
        val_nll.update_state(-tf.reduce_mean(
            tf.reduce_sum(tf.nn.log_softmax(logits) * batch, axis=1)))

    update = 0
    for epoch in range(args.epochs):
        train_loss.reset_state()
        val_nll.reset_state()
        for batch in train:
            beta = min(args.beta_max, update / args.anneal_steps)
            train_step(batch, beta)
            update += 1
        for batch in val:
            val_step(batch)
        print(f"epoch {epoch:3d} beta {beta:.4f} "
              f"loss {train_loss.result():.3f} val nll {val_nll.result():.3f}")

    model.save_weights("basket_vae.weights.h5")


if __name__ == "__main__":
    main()
