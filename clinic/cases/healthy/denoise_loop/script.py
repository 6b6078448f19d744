"""Denoising autoencoder for radar frames, with a loop of our own and a warm-up on the learning rate."""
import numpy as np
import tensorflow as tf

FRAMES, SIDE, BATCH, EPOCHS = 1024, 64, 32, 3


def radar(seed=0):
    rng = np.random.default_rng(seed)
    low = rng.normal(size=(FRAMES, 8, 8, 1)).astype("float32")
    return low.repeat(8, 1).repeat(8, 2)


def autoencoder():
    L = tf.keras.layers
    return tf.keras.Sequential([
        L.Input((SIDE, SIDE, 1)),
        L.Conv2D(24, 5, padding="same", activation="relu"),
        L.Conv2D(32, 3, strides=2, padding="same", activation="relu"),
        L.Conv2D(32, 3, padding="same", activation="relu"),
        L.Conv2DTranspose(24, 3, strides=2, padding="same", activation="relu"),
        L.Conv2D(1, 5, padding="same"),
    ])


net = autoencoder()
opt = tf.keras.optimizers.Adam(tf.keras.optimizers.schedules.PolynomialDecay(1e-4, 30, 1e-3))


@tf.function
def step(clean):
    noisy = clean + tf.random.normal(tf.shape(clean), stddev=0.3)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.math.squared_difference(net(noisy, training=True), clean))
    opt.apply_gradients(zip(tape.gradient(loss, net.trainable_variables), net.trainable_variables))
    return loss


def main():
    ds = tf.data.Dataset.from_tensor_slices(radar()).shuffle(FRAMES).batch(BATCH, drop_remainder=True).prefetch(2)
    for epoch in range(EPOCHS):
        losses = [step(clean) for clean in ds]
        print(f"epoch {epoch} loss {np.mean(losses):.4f}")


main()
