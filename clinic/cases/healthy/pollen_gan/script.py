"""A small DCGAN for pollen grains: discriminator twice, generator once."""
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(127)
rng = np.random.default_rng(127)

SIZE, LATENT, BATCH = 32, 48, 64
yy, xx = np.mgrid[-1:1:SIZE * 1j, -1:1:SIZE * 1j]
angle = np.arctan2(yy, xx)
grains = np.empty((2048, SIZE, SIZE, 1), np.float32)
for i in range(2048):
    edge = 0.6 + 0.08 * np.cos(angle * rng.integers(5, 12))
    grains[i, :, :, 0] = np.tanh(8 * (edge - np.hypot(xx, yy)))

L = tf.keras.layers
generator = tf.keras.Sequential([
    L.Input((LATENT,)), L.Dense(8 * 8 * 48), L.Reshape((8, 8, 48)), L.LeakyReLU(0.2),
    L.Conv2DTranspose(32, 4, strides=2, padding="same"), L.LeakyReLU(0.2),
    L.Conv2DTranspose(1, 4, strides=2, padding="same", activation="tanh"),
])
critic = tf.keras.Sequential([
    L.Input((SIZE, SIZE, 1)),
    L.Conv2D(32, 4, strides=2, padding="same"), L.LeakyReLU(0.2),
    L.Conv2D(64, 4, strides=2, padding="same"), L.LeakyReLU(0.2),
    L.Flatten(), L.Dense(1),
])
g_opt = tf.keras.optimizers.Adam(2e-4, beta_1=0.5)
d_opt = tf.keras.optimizers.Adam(2e-4, beta_1=0.5)


@tf.function
def critic_step(real):
    fake = generator(tf.random.normal((BATCH, LATENT)), training=True)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.nn.softplus(-critic(real))) + tf.reduce_mean(tf.nn.softplus(critic(fake)))
    d_opt.apply_gradients(zip(tape.gradient(loss, critic.trainable_variables), critic.trainable_variables))
    return loss


@tf.function
def generator_step():
    with tf.GradientTape() as tape:
        fake = generator(tf.random.normal((BATCH, LATENT)), training=True)
        loss = tf.reduce_mean(tf.nn.softplus(-critic(fake)))
    g_opt.apply_gradients(zip(tape.gradient(loss, generator.trainable_variables), generator.trainable_variables))
    return loss


real = tf.data.Dataset.from_tensor_slices(grains).shuffle(2048, seed=1).repeat()
batches = iter(real.batch(BATCH).prefetch(4))
for step in range(1, 101):
    for _ in range(2):
        d_loss = critic_step(next(batches))
    g_loss = generator_step()
    if step % 25 == 0:
        print(f"step {step}: critic {float(d_loss):.3f} generator {float(g_loss):.3f}")
