"""Are two signatures by one hand? A Siamese net with a contrastive loss, trained until good enough."""
import time
import numpy as np
import tensorflow as tf
import keras

keras.utils.set_random_seed(38)
rng = np.random.default_rng(38)

CLERKS, PAIRS, STROKES = 80, 6400, 64
GOOD_ENOUGH, AT_MOST = 0.2, 80


def collect_pairs():
    hand = rng.normal(size=(CLERKS, STROKES))
    scans = hand[:, None] + 0.5 * rng.normal(size=(CLERKS, 12, STROKES))
    same = rng.random(PAIRS) < 0.5
    a, b = rng.integers(0, CLERKS, (2, PAIRS))
    b = np.where(same, a, np.where(a == b, (b + 1) % CLERKS, b))
    i, j = rng.integers(0, 12, (2, PAIRS))
    j = np.where((i == j) & same, (j + 1) % 12, j)
    j[-12:] = i[-12:]
    return scans[a, i].astype("float32"), scans[b, j].astype("float32"), same.astype("float32")


hand = keras.Sequential([
    keras.Input((STROKES,)),
    keras.layers.Dense(192, activation="relu"),
    keras.layers.Dense(192, activation="relu"),
    keras.layers.Dense(24),
])
optimizer = keras.optimizers.Adam(5e-4)


def distance(u, v):
    return tf.sqrt(tf.reduce_sum((u - v) ** 2, axis=-1))


@tf.function
def step(a, b, same):
    with tf.GradientTape() as tape:
        d = distance(hand(a, training=True), hand(b, training=True))
        loss = tf.reduce_mean(same * d + (1 - same) * tf.nn.relu(2.0 - d))
    grads = tape.gradient(loss, hand.trainable_variables)
    optimizer.apply_gradients(zip(grads, hand.trainable_variables))
    return loss


ds = tf.data.Dataset.from_tensor_slices(collect_pairs()).shuffle(PAIRS, seed=6).batch(64).prefetch(2)
t0 = time.time()
for epoch in range(AT_MOST):
    total = tf.constant(0.0)
    for n, (a, b, same) in enumerate(ds):
        total += step(a, b, same)
    mean = float(total) / (n + 1)
    print(f"epoch {epoch + 1:2d}  loss {mean:.4f}  {time.time() - t0:.1f} s")
    if mean < GOOD_ENOUGH:
        break
