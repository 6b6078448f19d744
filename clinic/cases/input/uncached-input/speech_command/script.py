"""Keyword spotting with an MFCC front end; plain epochs written out by hand."""
import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import numpy as np
import tensorflow as tf
import keras

SR, WORDS, BATCH, EPOCHS = 8000, 8, 40, 8


def utterances(n=800):
    rng = np.random.default_rng(8)
    t = np.arange(SR) / SR
    y = rng.integers(0, WORDS, n)
    x = np.sin(2 * np.pi * (200 + 150 * y[:, None]) * t + 4 * np.sin(2 * np.pi * (2 + y[:, None]) * t))
    return (x + 0.3 * rng.normal(size=x.shape)).astype("float32"), y.astype("int32")


mel_w = tf.signal.linear_to_mel_weight_matrix(40, 257, SR, 60.0, 3800.0)


def mfcc(wave, y):
    spec = tf.abs(tf.signal.stft(wave, 400, 40, 512))
    logmel = tf.math.log(tf.tensordot(spec, mel_w, 1) + 1e-6)
    c = tf.signal.mfccs_from_log_mel_spectrograms(logmel)[..., :13]
    return (c - tf.reduce_mean(c, -2, keepdims=True)) / (tf.math.reduce_std(c, -2, keepdims=True) + 1e-3), y


def training_set(wave, y):
    ds = tf.data.Dataset.from_tensor_slices((wave, y))
    ds = ds.batch(BATCH).map(mfcc, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.cache()
    return ds.shuffle(20).prefetch(2)


wave, y = utterances()
model = keras.Sequential([
    keras.layers.Input((191, 13)),
    keras.layers.Conv1D(16, 5, strides=2, activation="relu"),
    keras.layers.Conv1D(16, 5, strides=2, activation="relu"),
    keras.layers.GlobalMaxPooling1D(),
    keras.layers.Dense(WORDS),
])
loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
opt = keras.optimizers.Adam(2e-3)
opt.build(model.trainable_variables)


@tf.function
def train_step(x, t):
    with tf.GradientTape() as tape:
        loss = loss_fn(t, model(x, training=True))
    opt.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    return loss


for epoch in range(EPOCHS):
    total, n = 0.0, 0
    for x, t in training_set(wave, y):
        total += train_step(x, t)
        n += 1
    print("epoch", epoch, "loss", float(total) / n, flush=True)
