"""P-wave or noise? Rounds of training on seismograms, with a look at a fixed set after each round."""
import time
import numpy as np
import tensorflow as tf
import keras

keras.utils.set_random_seed(10)
rng = np.random.default_rng(10)

TRACES, SAMPLES, ROUNDS, STEPS, BATCH = 9000, 512, 20, 20, 32

quake = rng.integers(0, 2, TRACES)
waves = rng.normal(size=(TRACES, SAMPLES)).astype("float32")
waves[quake == 1] += (np.exp(-np.abs(np.arange(SAMPLES) - 250) / 60) * np.sin(np.arange(SAMPLES) / 3)).astype("float32")


def bandpass(wave, label):
    spectrum = tf.signal.rfft(wave)
    keep = tf.cast(tf.range(SAMPLES // 2 + 1) < 120, tf.complex64)
    wave = tf.signal.irfft(spectrum * keep)
    wave = (wave - tf.reduce_mean(wave)) / (tf.math.reduce_std(wave) + 1e-6)
    return wave[:, None], label


train = (
    tf.data.Dataset.from_tensor_slices((waves[500:], quake[500:]))
    .map(bandpass, num_parallel_calls=tf.data.AUTOTUNE)
    .shuffle(8000, seed=1)
    .repeat()
    .batch(BATCH)
    .prefetch(tf.data.AUTOTUNE)
)
fixed_set = tf.data.Dataset.from_tensor_slices((waves[:500], quake[:500])).map(bandpass).batch(250).cache()

model = keras.Sequential([
    keras.Input((SAMPLES, 1)),
    keras.layers.Conv1D(16, 9, strides=4, activation="relu"),
    keras.layers.Conv1D(32, 9, strides=4, activation="relu"),
    keras.layers.GlobalMaxPooling1D(),
    keras.layers.Dense(1),
])
bce = keras.losses.BinaryCrossentropy(from_logits=True)
optimizer = keras.optimizers.Adam(1e-3)


@tf.function
def learn(x, y):
    with tf.GradientTape() as tape:
        loss = bce(y[:, None], model(x, training=True))
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    return loss


@tf.function
def right(x, y):
    return tf.reduce_sum(tf.cast((model(x)[:, 0] > 0) == (y > 0), tf.float32))


t0 = time.time()
for r in range(ROUNDS):
    for x, y in train.take(STEPS):
        loss = learn(x, y)
    if r % 4 == 3:
        hits = sum(float(right(x, y)) for x, y in fixed_set)
        print(f"round {r + 1:2d}  loss {float(loss):.4f}  right {hits / 500:.3f}  {time.time() - t0:.1f} s")
