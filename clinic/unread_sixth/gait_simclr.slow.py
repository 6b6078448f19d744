"""SimCLR pretraining on wrist accelerometer windows, then a linear probe for the walking surface."""
import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

WINDOW, CHANNELS = 128, 3
BATCH = 256
EPOCHS = 40
TEMPERATURE = 0.1
N_CLASSES = 5


def synth_windows(n, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, N_CLASSES, n)
    t = np.arange(WINDOW, dtype=np.float32)[None, :, None] / 50.0
    cadence = (1.4 + 0.15 * y + rng.normal(0, 0.05, n)).astype(np.float32)[:, None, None]
    phase = rng.uniform(0, 2 * np.pi, (n, 1, CHANNELS)).astype(np.float32)
    x = np.sin(2 * np.pi * cadence * t + phase)
    x += (0.2 + 0.1 * y)[:, None, None].astype(np.float32) * np.sin(6 * np.pi * cadence * t + phase)
    x += 0.3 * rng.standard_normal(x.shape, dtype=np.float32)
    return x.astype(np.float32), y.astype(np.int64)


def make_encoder():
    inp = keras.Input((WINDOW, CHANNELS))
    x = inp
    for filters, k in ((64, 9), (128, 7), (256, 5)):
        x = layers.Conv1D(filters, k, strides=2, padding="same", use_bias=False)(x)
        x = layers.BatchNormalization()(x)
        x = layers.ReLU()(x)
    return keras.Model(inp, layers.GlobalAveragePooling1D()(x), name="encoder")


def augment(x):
    b = tf.shape(x)[0]
    x = x * tf.random.normal((b, 1, CHANNELS), 1.0, 0.15)
    x = x + tf.random.normal(tf.shape(x), 0.0, 0.05)
    sign = tf.where(tf.random.uniform((b, 1, CHANNELS)) < 0.5, -1.0, 1.0)
    keep = tf.cast(tf.random.uniform((b, WINDOW // 16, 1)) > 0.15, tf.float32)
    return x * sign * tf.repeat(keep, 16, axis=1)


def nt_xent(z1, z2, temperature):
    z = tf.math.l2_normalize(tf.concat([z1, z2], axis=0), axis=1)
    n = z1.shape[0]
    total = 0.0
    for i in range(2 * n):
        j = (i + n) % (2 * n)
        sims = tf.reduce_sum(z[i][None, :] * z, axis=1) / temperature
        others = tf.concat([sims[:i], sims[i + 1:]], axis=0)
        total += tf.reduce_logsumexp(others) - sims[j]
    return total / (2 * n)


class SimCLR(keras.Model):
    def __init__(self, encoder, temperature):
        super().__init__()
        self.encoder = encoder
        self.projector = keras.Sequential([
            keras.Input((256,)),
            layers.Dense(256, activation="relu"),
            layers.Dense(64),
        ])
        self.temperature = temperature
        self.loss_tracker = keras.metrics.Mean(name="loss")

    @property
    def metrics(self):
        return [self.loss_tracker]

    def call(self, x, training=False):
        return self.projector(self.encoder(x, training=training), training=training)

    def train_step(self, x):
        with tf.GradientTape() as tape:
            z1 = self(augment(x), training=True)
            z2 = self(augment(x), training=True)
            loss = nt_xent(z1, z2, self.temperature)
        variables = self.encoder.trainable_variables + self.projector.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        self.loss_tracker.update_state(loss)
        return {"loss": self.loss_tracker.result()}


x_all, _ = synth_windows(40000, seed=0)
pretrain = (
    tf.data.Dataset.from_tensor_slices(x_all)
    .shuffle(len(x_all))
    .batch(BATCH, drop_remainder=True)
    .prefetch(tf.data.AUTOTUNE)
)

encoder = make_encoder()
simclr = SimCLR(encoder, TEMPERATURE)
simclr.compile(optimizer=keras.optimizers.AdamW(1e-3, weight_decay=1e-4))
simclr.fit(pretrain, epochs=EPOCHS, verbose=2)

x_lab, y_lab = synth_windows(6000, seed=1)
feats = encoder.predict(x_lab, batch_size=1024, verbose=0)
probe = keras.Sequential([keras.Input((256,)), layers.Dense(N_CLASSES)])
probe.compile(
    optimizer=keras.optimizers.Adam(1e-2),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
probe.fit(feats[:5000], y_lab[:5000], batch_size=500, epochs=30, verbose=0)
print("linear probe accuracy:", probe.evaluate(feats[5000:], y_lab[5000:], batch_size=1000, verbose=0)[1])
encoder.save("gait_encoder.keras")
