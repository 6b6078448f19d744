"""Small texture GAN."""
import keras
import numpy as np
import tensorflow as tf

LATENT = 64
SIDE = 32


@tf.function
def augment(images):
    images = tf.image.random_flip_left_right(images)
    return images + tf.random.uniform([tf.shape(images)[0], 1, 1, 1], -0.1, 0.1)


def generator():
    model = keras.Sequential([keras.Input((LATENT,)), keras.layers.Dense(4 * 4 * 256)])
    model.add(keras.layers.Reshape((4, 4, 256)))
    for width in (128, 64, 32):
        model.add(keras.layers.Conv2DTranspose(width, 4, strides=2, padding="same"))
        model.add(keras.layers.BatchNormalization())
        model.add(keras.layers.ReLU())
    model.add(keras.layers.Conv2D(3, 3, padding="same", activation="tanh"))
    return model


def critic():
    model = keras.Sequential([keras.Input((SIDE, SIDE, 3))])
    for width in (32, 64, 128):
        model.add(keras.layers.Conv2D(width, 4, strides=2, padding="same"))
        model.add(keras.layers.LeakyReLU())
    model.add(keras.layers.Flatten())
    model.add(keras.layers.Dense(1))
    return model


class TextureGan:
    def __init__(self):
        self.gen, self.disc = generator(), critic()
        self.gen_opt = keras.optimizers.Adam(2e-4, beta_1=0.5)
        self.disc_opt = keras.optimizers.Adam(2e-4, beta_1=0.5)

    @tf.function
    def update(self, real):
        noise = tf.random.normal([tf.shape(real)[0], LATENT])
        real = augment(real)
        with tf.GradientTape(persistent=True) as tape:
            fake = augment(self.gen(noise, training=True))
            real_score = self.disc(real, training=True)
            fake_score = self.disc(fake, training=True)
            d_loss = tf.reduce_mean(tf.nn.softplus(-real_score) + tf.nn.softplus(fake_score))
            g_loss = tf.reduce_mean(tf.nn.softplus(-fake_score))
        for model, loss, opt in (
            (self.disc, d_loss, self.disc_opt),
            (self.gen, g_loss, self.gen_opt),
        ):
            grads = tape.gradient(loss, model.trainable_variables)
            opt.apply_gradients(zip(grads, model.trainable_variables))
        return d_loss, g_loss


def main():
    rng = np.random.default_rng(0)
    textures = rng.uniform(-1, 1, (20_000, SIDE, SIDE, 3)).astype(np.float32)
    data = tf.data.Dataset.from_tensor_slices(textures).shuffle(4096)
    data = data.batch(128, drop_remainder=True).prefetch(tf.data.AUTOTUNE)
    gan = TextureGan()
    for epoch in range(10):
        for real in data:
            d_loss, g_loss = gan.update(real)
        print(f"epoch {epoch} d {float(d_loss):.3f} g {float(g_loss):.3f}")


if __name__ == "__main__":
    main()
