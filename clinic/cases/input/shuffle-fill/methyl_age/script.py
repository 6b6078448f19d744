"""Epigenetic clock on a large pool of simulated read profiles; short epochs with a fresh draw each."""
import os, time
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import numpy as np
import tensorflow as tf
from tensorflow import keras

SITES = 64
POOL = 60_000
STEPS_PER_EPOCH = 40
EPOCHS = 18


def pool(seed=12):
    r = np.random.default_rng(seed)
    age = r.uniform(18, 90, POOL).astype("float32")
    slope = r.normal(size=SITES).astype("float32") * 0.01
    beta = 0.5 + slope * (age[:, None] - 50) + 0.1 * r.standard_normal((POOL, SITES), dtype=np.float32)
    reads = r.integers(5, 60, (POOL, 1))
    return np.clip(beta, 0, 1), reads.astype("float32"), age


def m_value(beta, depth, age):
    beta = (beta * depth + 1.0) / (depth + 2.0)
    return tf.math.log(beta / (1.0 - beta)), (age - 50.0) / 20.0


def draw():
    ds = tf.data.Dataset.from_tensor_slices(pool())
    ds = ds.shuffle(50_000, reshuffle_each_iteration=True)
    return ds.batch(64).map(m_value, num_parallel_calls=2).prefetch(2)


inputs = keras.Input((SITES,))
h = keras.layers.Dense(256, activation="gelu")(inputs)
for _ in range(2):
    r = keras.layers.Dense(256, activation="gelu")(keras.layers.LayerNormalization()(h))
    h = keras.layers.Add()([h, r])
clock = keras.Model(inputs, keras.layers.Dense(1)(h))
opt = keras.optimizers.AdamW(1e-3)
opt.build(clock.trainable_variables)


@tf.function(input_signature=[tf.TensorSpec((None, SITES)), tf.TensorSpec((None,))])
def step(x, age):
    with tf.GradientTape() as tape:
        err = tf.squeeze(clock(x, training=True), 1) - age
        loss = tf.reduce_mean(tf.where(tf.abs(err) < 1, 0.5 * err ** 2, tf.abs(err) - 0.5))
    opt.apply_gradients(zip(tape.gradient(loss, clock.trainable_variables), clock.trainable_variables))
    return loss


ds = draw()
tic = time.perf_counter()
n = 0
for epoch in range(EPOCHS):
    total = 0.0
    for x, age in ds.take(STEPS_PER_EPOCH):
        total += step(x, age)
        n += int(x.shape[0])
    print("epoch", epoch, "huber", round(float(total) / STEPS_PER_EPOCH, 4))
print("WORK", n)
print("TRAIN_SECONDS %.3f" % (time.perf_counter() - tic))
