# Discrete codebook of bat echolocation calls (Gumbel-softmax autoencoder).
# 32x32 spectrogram cut-outs, 12 groups of 8 codes.  The temperature goes down
# a little after each sweep, as in Jang et al. / Maddison et al.

import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers as L

GROUPS, CODES = 12, 8
BATCH = 48
SWEEPS = 26
STEPS_PER_SWEEP = 12
TAU_START, TAU_END, TAU_RATE = 1.0, 0.35, 0.96
KL_WEIGHT = 0.05


def chirps(n, seed):
    """FM sweeps with a bit of constant-frequency tail, and some hiss."""
    rng = np.random.default_rng(seed)
    t = np.linspace(0, 1, 32)[None, None, :]
    f = np.linspace(0, 1, 32)[None, :, None]
    top = rng.uniform(0.6, 0.95, (n, 1, 1))
    tail = rng.uniform(0.1, 0.45, (n, 1, 1))
    rate = rng.uniform(2.0, 9.0, (n, 1, 1))
    onset = rng.uniform(0.0, 0.3, (n, 1, 1))
    length = rng.uniform(0.3, 0.7, (n, 1, 1))
    since = np.clip(t - onset, 0, None)
    ridge = tail + (top - tail) * np.exp(-rate * since)
    envelope = ((t > onset) & (t < onset + length)).astype(float)
    spec = envelope * np.exp(-((f - ridge) ** 2) / (2 * 0.04**2))
    spec += 0.4 * envelope * np.exp(-((f - 2 * ridge) ** 2) / (2 * 0.05**2))   # harmonic
    spec += 0.05 * rng.random((n, 32, 32))
    return np.clip(spec, 0, 1)[..., None].astype("float32")


def make_encoder():
    return keras.Sequential([
        keras.Input((32, 32, 1)),
        L.Conv2D(16, 3, strides=2, padding="same", activation="relu"),
        L.Conv2D(32, 3, strides=2, padding="same", activation="relu"),
        L.Flatten(),
        L.Dense(GROUPS * CODES),
    ], name="ear")


def make_decoder():
    return keras.Sequential([
        keras.Input((GROUPS * CODES,)),
        L.Dense(8 * 8 * 32, activation="relu"),
        L.Reshape((8, 8, 32)),
        L.Conv2DTranspose(16, 3, strides=2, padding="same", activation="relu"),
        L.Conv2DTranspose(1, 3, strides=2, padding="same"),
    ], name="voice")


def make_step(ear, voice, opt, tau):
    weights = ear.trainable_variables + voice.trainable_variables

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            logits = tf.reshape(ear(x, training=True), [-1, GROUPS, CODES])
            u = tf.random.uniform(tf.shape(logits), 1e-6, 1.0 - 1e-6)
            z = tf.nn.softmax((logits - tf.math.log(-tf.math.log(u))) / tau)
            out = voice(tf.reshape(z, [-1, GROUPS * CODES]), training=True)
            bce = tf.nn.sigmoid_cross_entropy_with_logits(labels=x, logits=out)
            recon = tf.reduce_mean(tf.reduce_sum(bce, axis=[1, 2, 3]))
            logq = tf.nn.log_softmax(logits)
            kl = tf.reduce_sum(tf.exp(logq) * (logq + np.log(CODES).astype("float32")), axis=[1, 2])
            loss = recon + KL_WEIGHT * tf.reduce_mean(kl)
        opt.apply_gradients(zip(tape.gradient(loss, weights), weights))
        return loss

    return step


def main():
    keras.utils.set_random_seed(8)
    calls = chirps(4000, seed=8)
    stream = iter(
        tf.data.Dataset.from_tensor_slices(calls)
        .shuffle(4000, seed=8).repeat().batch(BATCH, drop_remainder=True).prefetch(4)
    )
    ear, voice = make_encoder(), make_decoder()
    opt = keras.optimizers.Adam(1.5e-3)
    opt.build(ear.trainable_variables + voice.trainable_variables)

    began = time.perf_counter()
    tau = TAU_START
    for sweep in range(SWEEPS):
        step = make_step(ear, voice, opt, tau)
        losses = [step(next(stream)) for _ in range(STEPS_PER_SWEEP)]
        print(f"sweep {sweep:2d}  tau {tau:.3f}  loss {float(tf.add_n(losses)) / len(losses):.2f}")
        tau = max(TAU_END, tau * TAU_RATE)
    took = time.perf_counter() - began

    codes = tf.argmax(tf.reshape(ear(calls[:512], training=False), [-1, GROUPS, CODES]), axis=-1).numpy()
    print("codes in use per group:", [len(np.unique(codes[:, g])) for g in range(GROUPS)])
    print(f"TRAIN_SECONDS {took:.2f}")


main()
