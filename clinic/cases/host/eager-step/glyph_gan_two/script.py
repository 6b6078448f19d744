"""A small GAN that draws glyphs, following the DCGAN tutorial but with dense layers."""
import time
import numpy as np
import tensorflow as tf
import keras
from keras import layers

NOISE = 32
BATCH = 32


def glyphs(n=1600, seed=0):
    rng = np.random.default_rng(seed)
    img = np.full((n, 16, 16), -1, np.float32)
    rows, cols = rng.integers(2, 14, (2, n))
    img[np.arange(n), rows] = 1
    img[np.arange(n), :, cols] = 1
    return img.reshape(n, 256)


def make_generator():
    return keras.Sequential([
        keras.Input((NOISE,)),
        layers.Dense(64, use_bias=False),
        layers.BatchNormalization(),
        layers.LeakyReLU(),
        layers.Dense(128, use_bias=False),
        layers.BatchNormalization(),
        layers.LeakyReLU(),
        layers.Dense(256, activation="tanh"),
    ])


def make_discriminator():
    return keras.Sequential([
        keras.Input((256,)),
        layers.Dense(128), layers.LeakyReLU(), layers.Dropout(0.3),
        layers.Dense(64), layers.LeakyReLU(), layers.Dropout(0.3),
        layers.Dense(1),
    ])


bce = keras.losses.BinaryCrossentropy(from_logits=True)
generator, discriminator = make_generator(), make_discriminator()
gen_opt, disc_opt = keras.optimizers.Adam(2e-4), keras.optimizers.Adam(2e-4)
gen_opt.build(generator.trainable_variables)
disc_opt.build(discriminator.trainable_variables)


def train_step(images):
    noise = tf.random.normal([BATCH, NOISE])
    with tf.GradientTape() as gen_tape, tf.GradientTape() as disc_tape:
        fake = generator(noise, training=True)
        real_out = discriminator(images, training=True)
        fake_out = discriminator(fake, training=True)
        gen_loss = bce(tf.ones_like(fake_out), fake_out)
        disc_loss = bce(tf.ones_like(real_out), real_out) + bce(tf.zeros_like(fake_out), fake_out)
    gen_grads = gen_tape.gradient(gen_loss, generator.trainable_variables)
    disc_grads = disc_tape.gradient(disc_loss, discriminator.trainable_variables)
    gen_opt.apply_gradients(zip(gen_grads, generator.trainable_variables))
    disc_opt.apply_gradients(zip(disc_grads, discriminator.trainable_variables))
    return gen_loss, disc_loss


def train(dataset, epochs):
    steps = 0
    for epoch in range(epochs):
        start = time.time()
        for batch in dataset:
            g, d = train_step(batch)
            steps += 1
        print(f"Time for epoch {epoch + 1} is {time.time() - start:.1f} sec, g {float(g):.3f} d {float(d):.3f}")
    return steps


if __name__ == "__main__":
    keras.utils.set_random_seed(0)
    ds = tf.data.Dataset.from_tensor_slices(glyphs()).shuffle(1600).batch(BATCH, drop_remainder=True).prefetch(2)
    t0 = time.time()
    done = train(ds, epochs=2)
    print("WORK", done)
    print("TRAIN_SECONDS %.2f" % (time.time() - t0))
