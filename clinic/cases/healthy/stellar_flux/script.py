# Denoise stellar spectra with a wide dense autoencoder.
import numpy as np
import tensorflow as tf

PIXELS = 1024
BATCH = 256
EPOCHS = 6

rng = np.random.default_rng(0)
grid = np.linspace(0, 1, PIXELS, dtype="float32")
centre = rng.uniform(0.1, 0.9, (5120, 3)).astype("float32")
clean = 1.0 - sum(0.4 * np.exp(-((grid[None] - centre[:, k:k + 1]) / 0.01) ** 2) for k in range(3))
clean = clean.astype("float32")


def add_noise(flux):
    return flux + tf.random.normal(tf.shape(flux), stddev=0.05), flux


spectra = tf.data.Dataset.from_tensor_slices(clean).cache().shuffle(1024).batch(BATCH, drop_remainder=True)
spectra = spectra.map(add_noise, num_parallel_calls=tf.data.AUTOTUNE).prefetch(2)

model = tf.keras.Sequential([
    tf.keras.Input((PIXELS,)),
    tf.keras.layers.Dense(1536, activation="relu"),
    tf.keras.layers.Dense(512, activation="relu"),
    tf.keras.layers.Dense(1536, activation="relu"),
    tf.keras.layers.Dense(PIXELS),
])
opt = tf.keras.optimizers.SGD(0.05, momentum=0.9)


@tf.function
def step(noisy, flux):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(noisy, training=True) - flux))
    grads = tape.gradient(loss, model.trainable_variables)
    opt.apply_gradients(zip(grads, model.trainable_variables))
    return loss


for epoch in range(EPOCHS):
    losses = []
    for noisy, flux in spectra:
        losses.append(step(noisy, flux))
    print("epoch", epoch, "mse", float(tf.reduce_mean(tf.stack(losses))))
