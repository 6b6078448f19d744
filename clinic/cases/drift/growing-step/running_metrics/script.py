"""Price model trained by a loop of its own; the scores of the whole run are followed."""
import time
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(3)
x = rng.normal(size=(6400, 24)).astype("float32")
y = x[:, :3].sum(1) + 0.1 * rng.normal(size=6400).astype("float32")
ds = tf.data.Dataset.from_tensor_slices((x, y)).batch(64).prefetch(2)

model = tf.keras.Sequential([
    tf.keras.layers.Input((24,)),
    tf.keras.layers.Dense(64, activation="relu"),
    tf.keras.layers.Dense(1),
])
opt = tf.keras.optimizers.Adam()


@tf.function
def train_step(a, b):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(a, training=True)[:, 0] - b) ** 2)
    grads = tape.gradient(loss, model.trainable_variables)
    opt.apply_gradients(zip(grads, model.trainable_variables))
    return loss


def summary(history):
    mean = sum(history) / len(history)
    spread = sum((h - mean) ** 2 for h in history) / len(history)
    return mean, spread ** 0.5


for a, b in ds.take(2):
    train_step(a, b)
losses = []
t0, step = time.perf_counter(), 0
for epoch in range(45):
    for a, b in ds:
        losses.append(float(train_step(a, b)))
        mean, spread = summary(losses)
        step += 1
        if step % 1000 == 0:
            print(step, "mean loss %.4f, spread %.4f" % (mean, spread))
print("WORK", step * 64)
print("TRAIN_SECONDS %.3f" % (time.perf_counter() - t0))
