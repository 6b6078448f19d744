"""DCGAN that draws pottery silhouettes."""
import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

LATENT = 64
BATCH = 32
EPOCHS = 20


def silhouettes(n=12000, side=32):
    rng = np.random.default_rng(8)
    yy, xx = np.mgrid[0:side, 0:side]
    r = rng.uniform(4, 14, (n, 1, 1))
    img = (np.abs(xx - side / 2) < r * (0.6 + 0.4 * np.sin(yy / 5))).astype("float32")
    return (img * 2 - 1)[..., None]


def generator():
    return keras.Sequential([
        layers.Input((LATENT,)),
        layers.Dense(8 * 8 * 32),
        layers.Reshape((8, 8, 32)),
        layers.Conv2DTranspose(32, 4, strides=2, padding="same"),
        layers.LeakyReLU(negative_slope=0.2),
        layers.Conv2DTranspose(1, 4, strides=2, padding="same", activation="tanh"),
    ])


def discriminator():
    return keras.Sequential([
        layers.Input((32, 32, 1)),
        layers.Conv2D(16, 4, strides=2, padding="same"),
        layers.LeakyReLU(negative_slope=0.2),
        layers.Conv2D(32, 4, strides=2, padding="same"),
        layers.LeakyReLU(negative_slope=0.2),
        layers.Flatten(),
        layers.Dense(1),
    ])


G, D = generator(), discriminator()
g_opt = keras.optimizers.Adam(2e-4, beta_1=0.5)
d_opt = keras.optimizers.Adam(2e-4, beta_1=0.5)
g_opt.build(G.trainable_variables)
d_opt.build(D.trainable_variables)
bce = keras.losses.BinaryCrossentropy(from_logits=True)


@tf.function
def train_step(real):
    noise = tf.random.normal([BATCH, LATENT])
    with tf.GradientTape() as gt, tf.GradientTape() as dt:
        fake = G(noise, training=True)
        real_out, fake_out = D(real, training=True), D(fake, training=True)
        g_loss = bce(tf.ones_like(fake_out), fake_out)
        d_loss = bce(tf.ones_like(real_out), real_out) + bce(tf.zeros_like(fake_out), fake_out)
    g_opt.apply_gradients(zip(gt.gradient(g_loss, G.trainable_variables), G.trainable_variables))
    d_opt.apply_gradients(zip(dt.gradient(d_loss, D.trainable_variables), D.trainable_variables))
    return g_loss, d_loss, tf.reduce_mean(real_out), tf.reduce_mean(fake_out)


data = silhouettes()
ds = tf.data.Dataset.from_tensor_slices(data).shuffle(len(data))
ds = ds.batch(BATCH, drop_remainder=True).prefetch(tf.data.AUTOTUNE)

history = {"g": [], "d": [], "real": [], "fake": []}
for epoch in range(EPOCHS):
    for batch in ds:
        g_loss, d_loss, real_score, fake_score = train_step(batch)
        history["g"].append(g_loss.numpy())
        history["d"].append(d_loss.numpy())
        history["real"].append(real_score.numpy())
        history["fake"].append(fake_score.numpy())
        print(f"\repoch {epoch} g={history['g'][-1]:.3f} d={history['d'][-1]:.3f}", end="")
    print()
