"""Two-class toy problem with a hand-written training loop."""
import time
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(1)
angle = rng.uniform(0, np.pi, 4000)
side = rng.integers(0, 2, 4000)
points = np.stack([np.cos(angle) * (1 - 2 * side) + side, np.sin(angle) * (1 - 2 * side) + 0.5 * side], 1)
points = (points + rng.normal(0, 0.1, points.shape)).astype("float32")

model = tf.keras.Sequential([
    tf.keras.layers.Input((2,)),
    tf.keras.layers.Dense(64, activation="relu"),
    tf.keras.layers.Dense(64, activation="relu"),
    tf.keras.layers.Dense(64, activation="relu"),
    tf.keras.layers.Dense(1),
])
optimizer = tf.keras.optimizers.Adam(1e-3)
bce = tf.keras.losses.BinaryCrossentropy(from_logits=True)


def train_step(x, y):
    with tf.GradientTape() as tape:
        logits = model(x, training=True)
        loss = bce(y, logits)
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
    return loss


ds = tf.data.Dataset.from_tensor_slices((points, side.astype("float32")[:, None]))
ds = ds.shuffle(4000).batch(50).prefetch(tf.data.AUTOTUNE)
for x, y in ds.take(3):
    train_step(x, y)

start = time.perf_counter()
for epoch in range(6):
    for x, y in ds:
        loss = train_step(x, y)
    print("epoch", epoch, "loss", round(float(loss), 4))
print("WORK", 6 * 4000)
print("TRAIN_SECONDS %.3f" % (time.perf_counter() - start))
