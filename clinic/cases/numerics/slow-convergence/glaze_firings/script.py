"""The shade of a ceramic glaze from its recipe and the curve of its firing; a training loop of our own."""
import time
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(2)
rng = np.random.default_rng(2)
recipes = rng.normal(size=(16_000, 24)).astype("float32")
hidden = np.tanh(recipes @ rng.normal(size=(24, 16)) / 4)
shades = (hidden @ rng.normal(size=(16, 3)) + 0.05 * rng.normal(size=(16_000, 3))).astype("float32")
batches = (
    tf.data.Dataset.from_tensor_slices((recipes, shades))
    .shuffle(16_000)
    .batch(160, drop_remainder=True)
    .prefetch(tf.data.AUTOTUNE)
)

first = tf.Variable(tf.random.normal((24, 64), stddev=0.2))
second = tf.Variable(tf.random.normal((64, 3), stddev=0.1))
optimizer = tf.keras.optimizers.SGD(learning_rate=0.0001)


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((tf.tanh(x @ first) @ second - y) ** 2)
    weights = [first, second]
    optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
    return loss


t0, steps = time.perf_counter(), 0
for epoch in range(30):
    for x, y in batches:
        loss = train_step(x, y)
        steps += 1
    print("epoch", epoch, "loss", float(loss))
print("WORK", steps * 160)
print("TRAIN_SECONDS %.3f" % (time.perf_counter() - t0))
