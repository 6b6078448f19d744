"""Denoising autoencoder for vibration spectrograms with a hand-written loop; reports the residual spread per epoch."""
import logging
import time

import numpy as np
import tensorflow as tf

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
log = logging.getLogger("denoise")

N, BINS, FRAMES, BATCH, EPOCHS = 3072, 64, 96, 128, 5
rng = np.random.default_rng(11)
base = rng.normal(size=(48, BINS, FRAMES)).astype("float32")
weights = rng.dirichlet(np.ones(48) * 0.2, size=N).astype("float32")
clean = np.tensordot(weights, base, axes=1)
train = (tf.data.Dataset.from_tensor_slices(clean).shuffle(N).batch(BATCH, drop_remainder=True)
         .prefetch(tf.data.AUTOTUNE))

flat = BINS * FRAMES
net = tf.keras.Sequential([
    tf.keras.Input((BINS, FRAMES)),
    tf.keras.layers.Flatten(),
    tf.keras.layers.Dense(48, activation="gelu"),
    tf.keras.layers.Dense(flat),
    tf.keras.layers.Reshape((BINS, FRAMES)),
])
opt = tf.keras.optimizers.SGD(0.5)


class ResidualReport:
    """Collects what the decoder leaves over, for the per-epoch quantile line."""

    def __init__(self):
        self.parts = []

    def add(self, residual):
        self.parts.append(residual)

    def line(self, epoch):
        last = self.parts[-1].numpy()
        q = np.quantile(np.abs(last), [0.5, 0.9, 0.99])
        return f"epoch {epoch} |r| p50 {q[0]:.4f} p90 {q[1]:.4f} p99 {q[2]:.4f}"


@tf.function
def step(batch):
    noisy = batch + tf.random.normal(tf.shape(batch), stddev=0.1)
    with tf.GradientTape() as tape:
        out = net(noisy, training=True)
        residual = out - batch
        loss = tf.reduce_mean(tf.square(residual))
    grads = tape.gradient(loss, net.trainable_variables)
    opt.apply_gradients(zip(grads, net.trainable_variables))
    return loss, residual, noisy, out


report = ResidualReport()
t0 = time.perf_counter()
for epoch in range(EPOCHS):
    for batch in train:
        loss, residual, noisy, out = step(batch)
        report.add(tf.stack([residual, noisy, out]))
    log.info("%s loss %.5f", report.line(epoch), float(loss))
log.info("trained in %.2f s", time.perf_counter() - t0)
