"""Denoises photographs; a heat map of where the error is large is smoothed after every step, for a picture at the end."""
import time
import numpy as np
import tensorflow as tf

SIDE = 48
tf.keras.utils.set_random_seed(3)
photos = np.random.default_rng(3).random((800, SIDE, SIDE)).astype("float32")
data = tf.data.Dataset.from_tensor_slices(photos).batch(16, drop_remainder=True).repeat().prefetch(2)
net = tf.keras.Sequential([
    tf.keras.layers.Input((SIDE, SIDE)),
    tf.keras.layers.Flatten(),
    tf.keras.layers.Dense(16, activation="relu"),
    tf.keras.layers.Dense(SIDE * SIDE),
    tf.keras.layers.Reshape((SIDE, SIDE)),
])
opt = tf.keras.optimizers.SGD(0.05)


@tf.function
def train_step(clean):
    noisy = clean + tf.random.normal(tf.shape(clean), stddev=0.1)
    with tf.GradientTape() as tape:
        off = net(noisy, training=True) - clean
        loss = tf.reduce_mean(off ** 2)
    opt.apply_gradients(zip(tape.gradient(loss, net.trainable_variables), net.trainable_variables))
    return loss, tf.reduce_mean(tf.abs(off), axis=0)


def smooth(heat):
    out = np.zeros_like(heat)
    for i in range(1, SIDE - 1):
        for j in range(1, SIDE - 1):
            total = 0.0
            for di in (-1, 0, 1):
                for dj in (-1, 0, 1):
                    total += heat[i + di, j + dj]
            out[i, j] = total / 9
    return out


steps = iter(data)
loss, off = train_step(next(steps))
heat = smooth(off.numpy())
t0 = time.perf_counter()
for step in range(400):
    loss, off = train_step(next(steps))
    heat = 0.9 * heat + 0.1 * off.numpy()
    heat = smooth(heat)
print("loss %.5f heat %.5f" % (float(loss), heat.max()))
print("WORK", 400 * 16)
print("TRAIN_SECONDS %.3f" % (time.perf_counter() - t0))
