"""Denoise drum loops: long audio frames, few per batch, a dilated convolution stack."""
import time
import numpy as np
import tensorflow as tf
import keras
from keras import layers

FRAMES = {"warm up": 2048, "verse": 4096}
BATCH = 4
EPOCHS, STEPS = 3, 22


def loops(n, length, seed):
    rng = np.random.default_rng(seed)
    clean = np.zeros((n, length, 1), "float32")
    decay = np.exp(-np.arange(160) / 30.0).astype("float32")
    for row in clean:
        for hit in range(0, length - 160, int(rng.integers(200, 420))):
            row[hit:hit + 160, 0] += decay * rng.uniform(0.4, 1.0)
    noisy = clean + 0.2 * rng.standard_normal(clean.shape, dtype="float32")
    return noisy, clean


def denoiser(width=64):
    sound = keras.Input((None, 1))
    x = layers.Conv1D(width, 9, padding="same", activation="relu")(sound)
    for _ in range(3):
        x = layers.Conv1D(width, 9, padding="same", activation="relu")(x)
    return keras.Model(sound, layers.Conv1D(1, 9, padding="same")(x))


model = denoiser()
opt = keras.optimizers.Adam(1e-3)
total = tf.Variable(0.0)


@tf.function
def update(noisy, clean):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(noisy, training=True) - clean))
    opt.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    total.assign_add(loss)


def batches(length, seed):
    noisy, clean = loops(88, length, seed)
    return (tf.data.Dataset.from_tensor_slices((noisy, clean)).cache().shuffle(88, seed=seed)
            .repeat().batch(BATCH, drop_remainder=True).prefetch(tf.data.AUTOTUNE))


for name, length in FRAMES.items():
    for pair in batches(length, 1).take(1):
        update(*pair)
    print("ready for", name, length)

data = iter(batches(FRAMES["verse"], 2))
t0 = time.perf_counter()
for epoch in range(EPOCHS):
    total.assign(0.0)
    for _ in range(STEPS):
        update(*next(data))
    print("epoch", epoch, "loss", total.numpy() / STEPS)
seconds = time.perf_counter() - t0
print("WORK", EPOCHS * STEPS * BATCH)
print("TRAIN_SECONDS %.3f" % seconds)
