"""Denoising autoencoder for seismic sections with a hand-made loop."""
import time
import numpy as np
import tensorflow as tf


class Denoiser(tf.keras.Model):
    def __init__(self):
        super().__init__()
        L = tf.keras.layers
        self.down = [L.Conv2D(f, 5, strides=2, padding="same", activation="relu") for f in (48, 96)]
        self.mid = [L.Conv2D(96, 3, padding="same", activation="relu") for _ in range(3)]
        self.up = [L.Conv2DTranspose(48, 5, strides=2, padding="same", activation="relu"),
                   L.Conv2DTranspose(1, 5, strides=2, padding="same")]

    def call(self, x):
        for layer in self.down + self.mid + self.up:
            x = layer(x)
        return x


def sections(n=320, size=64):
    rng = np.random.default_rng(5)
    z = np.arange(size)[:, None]
    dip = rng.uniform(-0.5, 0.5, (n, 1, 1))
    freq = rng.uniform(0.2, 0.6, (n, 1, 1))
    clean = np.sin(freq * (z + dip * np.arange(size)[None])).astype("float32")
    return clean[..., None]


def train(epochs=3, batch=32):
    tf.keras.utils.set_random_seed(5)
    model, opt = Denoiser(), tf.keras.optimizers.Adam(1e-3)
    clean = sections()
    model(clean[:1])
    opt.build(model.trainable_variables)
    total = tf.Variable(0.0)

    @tf.function
    def step(x):
        noisy = x + tf.random.normal(tf.shape(x), stddev=0.5)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(noisy, training=True) - x))
        opt.apply(tape.gradient(loss, model.trainable_variables))
        total.assign_add(loss)

    data = tf.data.Dataset.from_tensor_slices(clean).shuffle(len(clean)).batch(batch, drop_remainder=True).prefetch(2)
    curve, steps = [], 0
    start = time.perf_counter()
    for epoch in range(epochs):
        for x in data:
            step(x)
            steps += 1
        curve.append(total.numpy() / len(data))
        total.assign(0.0)
        print("epoch", epoch, "mse", curve[-1], flush=True)
    return steps, time.perf_counter() - start


steps, seconds = train()
print("WORK", steps)
print("TRAIN_SECONDS %.2f" % seconds)
