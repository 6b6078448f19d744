"""Denoising autoencoder for Raman spectra with hand-rolled layers and Nesterov updates."""
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(21)


def spectra(n, width):
    axis = np.linspace(0.0, 1.0, width)
    out = np.zeros((n, width))
    for _ in range(6):
        centre = rng.uniform(0.05, 0.95, (n, 1))
        height = rng.gamma(2.0, 0.4, (n, 1))
        out += height * np.exp(-((axis - centre) / 0.015) ** 2)
    return out


class Layer:
    def __init__(self, nin, nout, act):
        self.w = tf.Variable(rng.normal(size=(nin, nout)) / np.sqrt(nin))
        self.b = tf.Variable(np.zeros(nout))
        self.act = act

    def __call__(self, x):
        return self.act(tf.matmul(x, self.w) + self.b)


def linear(x):
    return x


WIDTH = 900
clean = spectra(4096, WIDTH)
noisy = clean + 0.1 * rng.normal(size=clean.shape)
stack = [Layer(WIDTH, 512, tf.nn.relu), Layer(512, 128, tf.nn.relu),
         Layer(128, 512, tf.nn.relu), Layer(512, WIDTH, linear)]
params = [v for layer in stack for v in (layer.w, layer.b)]
speed = [tf.Variable(tf.zeros_like(p)) for p in params]


@tf.function
def descend(x, target):
    with tf.GradientTape() as tape:
        h = x
        for layer in stack:
            h = layer(h)
        loss = tf.reduce_mean(tf.square(h - target))
    for p, v, g in zip(params, speed, tape.gradient(loss, params)):
        v.assign(0.9 * v - 0.05 * g)
        p.assign_add(0.9 * v - 0.05 * g)
    return loss


ds = (tf.data.Dataset.from_tensor_slices((noisy, clean))
      .shuffle(4096).batch(256, drop_remainder=True).repeat().prefetch(2))
for step, (xb, yb) in enumerate(ds.take(200)):
    loss = descend(xb, yb)
    if step % 50 == 0:
        print("step", step, "mse", loss.numpy())
print("done", loss.numpy())
