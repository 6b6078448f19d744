"""DCGAN for sand mandalas (radially symmetric 32x32 pictures), hinge loss."""
import numpy as np
import tensorflow as tf
import keras
from keras import layers

LATENT, SIDE, BATCH, STEPS, EPOCHS = 48, 32, 64, 30, 2


def mandalas(n):
    rng = np.random.default_rng(108)
    y, x = np.mgrid[-1:1:SIDE * 1j, -1:1:SIDE * 1j]
    r, a = np.hypot(x, y), np.arctan2(y, x)
    petals = rng.integers(4, 12, (n, 1, 1))
    return (np.cos(petals * a) * np.cos(9 * r))[..., None].astype("float32")


def generator():
    return keras.Sequential([
        keras.Input((LATENT,)),
        layers.Dense(8 * 8 * 64), layers.Reshape((8, 8, 64)), layers.ReLU(),
        layers.Conv2DTranspose(48, 4, strides=2, padding="same", activation="relu"),
        layers.Conv2DTranspose(24, 4, strides=2, padding="same", activation="relu"),
        layers.Conv2D(1, 3, padding="same", activation="tanh"),
    ])


def critic():
    return keras.Sequential([
        keras.Input((SIDE, SIDE, 1)),
        layers.Conv2D(32, 4, strides=2, padding="same"), layers.LeakyReLU(0.2),
        layers.Conv2D(64, 4, strides=2, padding="same"), layers.LeakyReLU(0.2),
        layers.Flatten(), layers.Dense(1),
    ])


keras.utils.set_random_seed(108)
G, D = generator(), critic()
g_opt, d_opt = keras.optimizers.Adam(2e-4, 0.5), keras.optimizers.Adam(2e-4, 0.5)
g_opt.build(G.trainable_variables)
d_opt.build(D.trainable_variables)


@tf.function
def train_step(real):
    z = tf.random.normal([BATCH, LATENT])
    with tf.GradientTape() as gt, tf.GradientTape() as dt:
        fake = G(z, training=True)
        s_real, s_fake = D(real, training=True), D(fake, training=True)
        d_loss = tf.reduce_mean(tf.nn.relu(1 - s_real)) + tf.reduce_mean(tf.nn.relu(1 + s_fake))
        g_loss = -tf.reduce_mean(s_fake)
    g_opt.apply_gradients(zip(gt.gradient(g_loss, G.trainable_variables), G.trainable_variables))
    d_opt.apply_gradients(zip(dt.gradient(d_loss, D.trainable_variables), D.trainable_variables))
    return d_loss, g_loss


def symmetry(images):
    """How close a picture is to its own half turn; looked at once, when all is done."""
    turned = tf.reverse(images, axis=[1, 2])
    return float(tf.reduce_mean(tf.abs(images - turned)))


data = tf.data.Dataset.from_tensor_slices(mandalas(BATCH * STEPS)).batch(BATCH).prefetch(2)
for epoch in range(EPOCHS):
    d_log, g_log = [], []
    for real in data:
        d_loss, g_loss = train_step(real)
        d_log.append(d_loss)
        g_log.append(g_loss)
    print(f"epoch {epoch} d {np.mean(d_log):.3f} g {np.mean(g_log):.3f}")
print("symmetry", symmetry(G(tf.random.normal([64, LATENT]))))
