"""A VAE of woven patterns whose encoder and decoder are trained turn by turn."""
import time

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(29)
SIDE, CODE = 16, 4


def cloth(n):
    g = np.random.default_rng(29)
    i = np.arange(SIDE)
    a, b = g.integers(2, 6, (n, 1, 1)), g.integers(2, 6, (n, 1, 1))
    return (((i[:, None] // a + i[None] // b) % 2)).reshape(n, -1).astype("float32")


enc = tf.keras.Sequential([tf.keras.layers.Input((SIDE * SIDE,)), tf.keras.layers.Dense(96, activation="relu"),
                           tf.keras.layers.Dense(2 * CODE)])
dec = tf.keras.Sequential([tf.keras.layers.Input((CODE,)), tf.keras.layers.Dense(96, activation="relu"),
                           tf.keras.layers.Dense(SIDE * SIDE)])
turns = {"encoder": (enc, tf.keras.optimizers.Adam(1e-3)), "decoder": (dec, tf.keras.optimizers.Adam(2e-3))}
for half, opt in turns.values():
    opt.build(half.trainable_variables)


def elbo(x):
    mean, logvar = tf.split(enc(x), 2, axis=1)
    z = mean + tf.exp(logvar / 2) * tf.random.normal(tf.shape(mean), seed=3)
    rec = tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(x, dec(z)), 1)
    kl = -.5 * tf.reduce_sum(1 + logvar - mean ** 2 - tf.exp(logvar), 1)
    return tf.reduce_mean(rec + kl)


def shuttle(name):
    half, opt = turns[name]

    @tf.function
    def throw(x):
        with tf.GradientTape() as tape:
            loss = elbo(x)
        opt.apply_gradients(zip(tape.gradient(loss, half.trainable_variables), half.trainable_variables))
        return loss

    return throw




def weave(x, name):
    return shuttle(name)(x)


bolts = tf.data.Dataset.from_tensor_slices(cloth(64 * 40)).batch(64)
start = time.time()
for epoch in range(2):
    for k, x in enumerate(bolts):
        loss = weave(x, "encoder" if k % 2 else "decoder")
    tf.print("epoch", epoch, "loss", loss)
print(f"woven in {time.time() - start:.2f} s")
