# Hyperspectral unmixing with a convolutional autoencoder (abundances on the simplex).
import time

import numpy as np
import tensorflow as tf
from tensorflow.keras import Model, layers, optimizers

BANDS, MATERIALS, BATCH, EPOCHS = 160, 6, 256, 4


def synth(n, seed):
    rng = np.random.default_rng(seed)
    axis = np.linspace(0, 1, BANDS)
    library = np.stack([np.exp(-((axis - c) ** 2) / w) for c, w in
                        zip(rng.uniform(0, 1, MATERIALS), rng.uniform(0.005, 0.08, MATERIALS))])
    mix = rng.dirichlet(np.ones(MATERIALS) * 0.6, n)
    return (mix @ library + rng.normal(0, 0.01, (n, BANDS))).astype("float32")


class Unmixer(Model):
    def __init__(self):
        super().__init__()
        self.stem = layers.Reshape((BANDS, 1))
        self.convs = [layers.Conv1D(f, 7, strides=2, padding="same") for f in (16, 32, 32)]
        self.norms = [layers.BatchNormalization() for _ in self.convs]
        self.flat = layers.Flatten()
        self.hidden = layers.Dense(64, activation="gelu")
        self.abundance = layers.Dense(MATERIALS, activation="softmax")
        self.endmembers = layers.Dense(BANDS, use_bias=False, kernel_constraint="non_neg")

    def call(self, x, training=False):
        h = self.stem(x)
        for conv, norm in zip(self.convs, self.norms):
            h = tf.nn.relu(norm(conv(h), training=training))
        a = self.abundance(self.hidden(self.flat(h)))
        return self.endmembers(a), a


def spectral_angle(x, y):
    dot = tf.reduce_sum(x * y, -1) / (tf.norm(x, axis=-1) * tf.norm(y, axis=-1) + 1e-6)
    return tf.reduce_mean(tf.acos(tf.clip_by_value(dot, -0.9999, 0.9999)))


def run_epoch(model, optimizer, batches):
    mean_loss = tf.keras.metrics.Mean()

    @tf.function
    def train_step(x):
        with tf.GradientTape() as tape:
            recon, a = model(x, training=True)
            sparsity = tf.reduce_mean(tf.reduce_sum(tf.sqrt(a + 1e-6), -1))
            loss = spectral_angle(x, recon) + tf.reduce_mean((x - recon) ** 2) + 1e-3 * sparsity
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        mean_loss.update_state(loss)

    for x in batches:
        train_step(x)
    return float(mean_loss.result())


def main():
    pixels = synth(16384, 0)
    batches = (tf.data.Dataset.from_tensor_slices(pixels).shuffle(16384)
               .batch(BATCH, drop_remainder=True).prefetch(2))
    model = Unmixer()
    optimizer = optimizers.Adam(2e-3)
    seen = 0
    t0 = time.time()
    for epoch in range(EPOCHS):
        loss = run_epoch(model, optimizer, batches)
        seen += len(pixels) // BATCH * BATCH
        print("epoch %2d  loss %.4f" % (epoch, loss))
    spent = time.time() - t0
    print("WORK", seen)
    print("TRAIN_SECONDS", round(spent, 3))


main()
