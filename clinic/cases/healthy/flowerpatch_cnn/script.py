"""Flower patch classifier: residual CNN in a custom loop, EMA of the weights, sparse logging."""
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers


def patches(n, seed=3):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 5, n).astype("int32")
    x = rng.integers(0, 140, (n, 40, 40, 3)).astype("uint8")
    x[np.arange(n), :, :, y % 3] += (20 * (1 + y // 3)).astype("uint8")[:, None, None]
    return x, y


def residual(h, f):
    s = h
    h = layers.Conv2D(f, 3, padding="same", use_bias=False)(h)
    h = layers.BatchNormalization()(h)
    h = layers.ReLU()(h)
    h = layers.Conv2D(f, 3, padding="same")(h)
    return layers.ReLU()(layers.add([h, s]))


def net():
    i = keras.Input((40, 40, 3), dtype="uint8")
    h = layers.Rescaling(1 / 255.0)(i)
    h = layers.Conv2D(48, 3, strides=2, padding="same", activation="relu")(h)
    for _ in range(2):
        h = residual(h, 48)
    h = layers.Conv2D(96, 3, strides=2, padding="same", activation="relu")(h)
    h = residual(h, 96)
    return keras.Model(i, layers.Dense(5)(layers.GlobalAveragePooling2D()(h)))


x, y = patches(1536)
data = (tf.data.Dataset.from_tensor_slices((x, y)).shuffle(1536).repeat()
        .batch(32, drop_remainder=True).prefetch(tf.data.AUTOTUNE))
model = net()
opt = keras.optimizers.Adam(1e-3, use_ema=True, ema_momentum=0.98)
opt.build(model.trainable_variables)
xent = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function
def step(xb, yb):
    with tf.GradientTape() as tape:
        loss = xent(yb, model(xb, training=True))
    opt.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    return loss


t0 = time.time()
for i, (xb, yb) in enumerate(data.take(72)):
    loss = step(xb, yb)
    if i % 24 == 0:
        print(f"{i:3d} {float(loss):.4f} {time.time() - t0:.1f}s", flush=True)
opt.finalize_variable_values(model.trainable_variables)
