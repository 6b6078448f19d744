"""Triplet embedding of finch songs (batch-hard mining): same bird close together, other birds far away."""
import time

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(27)
BIRDS, PER_BIRD, STEPS = 16, 4, 2400
BATCH = BIRDS * PER_BIRD


def batch_hard(emb, bird, margin=0.3):
    losses = []
    for i in range(BATCH):
        gap = emb - emb[i]
        distance = tf.sqrt(tf.reduce_sum(gap * gap, axis=1) + 1e-8)
        same = bird == bird[i]
        far = tf.reduce_max(tf.where(same, distance, 0.0))
        near = tf.reduce_min(tf.where(same, 1e6, distance))
        losses.append(tf.nn.relu(far - near + margin))
    return tf.add_n(losses) / BATCH


def songs(birds=40, each=30, length=96):
    rng = np.random.default_rng(27)
    voice = rng.normal(size=(birds, length, 2)).cumsum(1)
    voice -= voice.mean(1, keepdims=True)
    x = voice[:, None] + 2.0 * rng.normal(size=(birds, each, length, 2))
    return (x / 4).astype("float32")


def sampler(x):
    rng = np.random.default_rng(2)
    for _ in range(STEPS):
        who = rng.choice(len(x), BIRDS, replace=False)
        take = rng.integers(0, x.shape[1], (BIRDS, PER_BIRD))
        yield x[who[:, None], take].reshape(BATCH, *x.shape[2:]), np.repeat(who, PER_BIRD).astype("int32")


encoder = tf.keras.Sequential([
    tf.keras.Input((96, 2)),
    tf.keras.layers.Conv1D(16, 7, strides=3, activation="relu"),
    tf.keras.layers.Conv1D(24, 5, strides=2, activation="relu"),
    tf.keras.layers.Flatten(),
    tf.keras.layers.Dense(24),
    tf.keras.layers.UnitNormalization(),
])
opt = tf.keras.optimizers.Adam(5e-4)


@tf.function
def step(x, bird):
    with tf.GradientTape() as tape:
        loss = batch_hard(encoder(x, training=True), bird)
    grads = tape.gradient(loss, encoder.trainable_variables)
    opt.apply_gradients(zip(grads, encoder.trainable_variables))
    return loss


t0 = time.time()
curve = []
for n, (x, bird) in enumerate(sampler(songs())):
    loss = step(tf.constant(x), tf.constant(bird))
    if n % 200 == 0:
        curve.append(round(float(loss), 3))
print(curve)
print("WORK", STEPS * BATCH)
print("TRAIN_SECONDS %.3f" % (time.time() - t0))
