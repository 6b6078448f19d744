"""Which of six ferries made a wake, from the heights of its waves; a training loop of our own."""
import time
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(5)
rng = np.random.default_rng(5)
heights = rng.normal(size=(16_000, 40)).astype("float32")
bow = np.tanh(heights @ rng.normal(size=(40, 24)) / 5)
ferry = np.argmax(bow @ rng.normal(size=(24, 6)), axis=1)
batches = tf.data.Dataset.from_tensor_slices((heights, ferry)).shuffle(16_000).batch(100).prefetch(tf.data.AUTOTUNE)

model = tf.keras.Sequential([
    tf.keras.layers.Input((40,)),
    tf.keras.layers.Dense(192, activation="tanh"),
    tf.keras.layers.Dense(192, activation="tanh"),
    tf.keras.layers.Dense(6),
])
optimizer = tf.keras.optimizers.SGD(1.0, momentum=0.9)
entropy = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = entropy(y, model(x, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


t0, steps = time.perf_counter(), 0
for epoch in range(10):
    for x, y in batches:
        loss = train_step(x, y)
        steps += 1
    print("epoch", epoch, "loss", float(loss))
print("WORK", steps * 100)
print("TRAIN_SECONDS %.3f" % (time.perf_counter() - t0))
