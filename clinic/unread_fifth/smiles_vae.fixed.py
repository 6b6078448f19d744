"""Character VAE on ZINC-250k. tokens.npy is (249455, 120) uint8, 0 = pad, 1 = start."""
import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

VOCAB = 40
MAX_LEN = 120
LATENT = 64
BATCH = 256
EPOCHS = 50
WARMUP_STEPS = 30_000


class SmilesVAE(keras.Model):
    def __init__(self):
        super().__init__()
        self.embed = layers.Embedding(VOCAB, 32)
        self.encoder = layers.Bidirectional(layers.GRU(256))
        self.to_mu = layers.Dense(LATENT)
        self.to_logvar = layers.Dense(LATENT)
        self.init_state = layers.Dense(512, activation="tanh")
        self.decoder = layers.GRU(512, return_sequences=True)
        self.out = layers.Dense(VOCAB)

    def call(self, tokens, training=False):
        tokens = tf.cast(tokens, tf.int32)
        h = self.encoder(self.embed(tokens))
        mu, logvar = self.to_mu(h), self.to_logvar(h)
        z = mu
        if training:
            z = mu + tf.exp(0.5 * logvar) * tf.random.normal(tf.shape(mu))
        zs = tf.repeat(z[:, None, :], MAX_LEN - 1, axis=1)
        x = tf.concat([self.embed(tokens[:, :-1]), zs], axis=-1)
        seq = self.decoder(x, initial_state=self.init_state(z))
        return self.out(seq), mu, logvar


tokens = np.load("zinc/tokens.npy")
rng = np.random.default_rng(0)
tokens = tokens[rng.permutation(len(tokens))]
valid, train = tokens[:8192], tokens[8192:]

train_ds = (
    tf.data.Dataset.from_tensor_slices(train)
    .shuffle(50_000)
    .batch(BATCH, drop_remainder=True)
    .prefetch(tf.data.AUTOTUNE)
)
valid_ds = tf.data.Dataset.from_tensor_slices(valid).batch(BATCH).prefetch(tf.data.AUTOTUNE)

model = SmilesVAE()
optimizer = keras.optimizers.Adam(5e-4, clipnorm=1.0)
m_rec = keras.metrics.Mean()
m_kl = keras.metrics.Mean()


def losses(batch, training):
    logits, mu, logvar = model(batch, training=training)
    target = tf.cast(batch[:, 1:], tf.int32)
    ce = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=target, logits=logits)
    rec = tf.reduce_mean(tf.reduce_sum(ce, axis=1))
    kl = -0.5 * tf.reduce_mean(tf.reduce_sum(1 + logvar - mu**2 - tf.exp(logvar), axis=1))
    return rec, kl


@tf.function
def train_step(batch, beta):
    with tf.GradientTape() as tape:
        rec, kl = losses(batch, True)
        loss = rec + beta * kl
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
    m_rec.update_state(rec)
    m_kl.update_state(kl)


@tf.function
def valid_step(batch):
    rec, kl = losses(batch, False)
    m_rec.update_state(rec)
    m_kl.update_state(kl)


model(train[:2])
optimizer.build(model.trainable_variables)

step = 0
best = float("inf")
for epoch in range(EPOCHS):
    m_rec.reset_state()
    m_kl.reset_state()
    for batch in train_ds:
        beta = min(1.0, step / WARMUP_STEPS)
        train_step(batch, tf.constant(beta, tf.float32))
        step += 1
    line = f"epoch {epoch:3d} beta {beta:.3f} rec {m_rec.result():.3f} kl {m_kl.result():.3f}"

    m_rec.reset_state()
    m_kl.reset_state()
    for batch in valid_ds:
        valid_step(batch)
    elbo = float(m_rec.result() + m_kl.result())
    print(line, f"| val rec {m_rec.result():.3f} kl {m_kl.result():.3f}")
    if elbo < best and beta == 1.0:
        best = elbo
        model.save_weights("smiles_vae.weights.h5")
