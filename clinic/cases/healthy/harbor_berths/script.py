"""How long will a ship wait for a berth? An LSTM on arrivals, in a loop of our own."""
import time
import numpy as np
import tensorflow as tf
import keras
from keras import layers

keras.utils.set_random_seed(19)
rng = np.random.default_rng(19)

N, HOURS, SIGNS, BATCH = 6400, 24, 12, 64
x = rng.normal(size=(N, HOURS, SIGNS)).astype("float32")
y = np.maximum(x[:, -6:, 0].sum(1) + 0.2 * rng.normal(size=N), 0).astype("float32")[:, None]

model = keras.Sequential([
    keras.Input((HOURS, SIGNS)),
    layers.LSTM(96),
    layers.Dense(32, activation="relu"),
    layers.Dense(1),
])
optimizer = keras.optimizers.Adam(1e-3)
mean_loss = keras.metrics.Mean()


@tf.function
def train_step(xb, yb):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.abs(model(xb, training=True) - yb))
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
    mean_loss.update_state(loss)
    return loss


ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(N, seed=1)
ds = ds.batch(BATCH, drop_remainder=True).repeat().prefetch(tf.data.AUTOTUNE)
t0 = time.time()
for step, (xb, yb) in enumerate(ds.take(700)):
    loss = train_step(xb, yb)
    if step % 100 == 99:
        print(f"{step + 1}: last {float(loss):.4f} mean {float(mean_loss.result()):.4f} after {time.time() - t0:.1f} s")
        mean_loss.reset_state()
