"""Severity of motor claims with a robust loss: claims above the usual loss are down-weighted."""
import time
import numpy as np
import tensorflow as tf
import keras

keras.utils.set_random_seed(46)
rng = np.random.default_rng(46)

N, BATCH = 40000, 256
x = rng.normal(size=(N, 30)).astype("float32")
y = (x[:, :3].sum(1) + 0.3 * rng.standard_t(2, N)).astype("float32")

model = keras.Sequential([
    keras.Input((30,)),
    keras.layers.Dense(96, activation="elu"),
    keras.layers.Dense(96, activation="elu"),
    keras.layers.Dense(1),
])
optimizer = keras.optimizers.Adam(1e-3)


class UsualLoss:
    """What counts as an unusual claim, from the losses met so far."""

    def __init__(self, share=0.95):
        self.share = share
        self.met = []

    def update(self, losses):
        self.met.extend(losses.tolist())
        return np.quantile(self.met, self.share)


@tf.function
def step(xb, yb, ceiling):
    with tf.GradientTape() as tape:
        err = (model(xb, training=True)[:, 0] - yb) ** 2
        weight = tf.where(err > ceiling, ceiling / err, 1.0)
        loss = tf.reduce_mean(tf.stop_gradient(weight) * err)
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    return loss, err


usual, ceiling = UsualLoss(), 10.0
ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(N, seed=5).batch(BATCH, drop_remainder=True).prefetch(4)
start = time.time()
for epoch in range(6):
    for xb, yb in ds:
        loss, err = step(xb, yb, tf.constant(ceiling, tf.float32))
        ceiling = usual.update(err.numpy())
    print(f"epoch {epoch}: loss {float(loss):.4f} ceiling {ceiling:.3f} ({time.time() - start:.1f} s)")
