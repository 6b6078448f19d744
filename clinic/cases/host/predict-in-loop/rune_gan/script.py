"""GAN that draws runes (16x16), after the usual Keras recipe."""
import time

import numpy as np
from tensorflow import keras
from tensorflow.keras import layers

keras.utils.set_random_seed(13)
SIDE, NOISE, BATCH = 16, 24, 64


class RuneGAN:
    def __init__(self):
        self.discriminator = self.build_discriminator()
        self.discriminator.compile(loss="binary_crossentropy", optimizer=keras.optimizers.Adam(2e-4, 0.5))
        self.generator = self.build_generator()
        z = keras.Input((NOISE,))
        frozen = keras.models.clone_model(self.discriminator)
        frozen.trainable = False
        self.frozen = frozen
        self.combined = keras.Model(z, frozen(self.generator(z)))
        self.combined.compile(loss="binary_crossentropy", optimizer=keras.optimizers.Adam(2e-4, 0.5))

    def build_generator(self):
        return keras.Sequential([
            keras.Input((NOISE,)),
            layers.Dense(128),
            layers.LeakyReLU(negative_slope=0.2),
            layers.Dense(SIDE * SIDE, activation="tanh"),
            layers.Reshape((SIDE, SIDE, 1)),
        ])

    def build_discriminator(self):
        return keras.Sequential([
            keras.Input((SIDE, SIDE, 1)),
            layers.Flatten(),
            layers.Dense(128),
            layers.LeakyReLU(negative_slope=0.2),
            layers.Dense(1, activation="sigmoid"),
        ])

    def fake_images(self, noise):
        return self.generator.predict(noise, verbose=0)

    def train(self, runes, steps):
        rng = np.random.default_rng(2)
        real_y = np.ones((BATCH, 1), "float32")
        fake_y = np.zeros((BATCH, 1), "float32")
        for step in range(steps):
            real = runes[rng.integers(0, len(runes), BATCH)]
            fake = self.fake_images(rng.normal(size=(BATCH, NOISE)).astype("float32"))
            d1 = self.discriminator.train_on_batch(real, real_y)
            d2 = self.discriminator.train_on_batch(fake, fake_y)
            self.frozen.set_weights(self.discriminator.get_weights())
            g = self.combined.train_on_batch(rng.normal(size=(BATCH, NOISE)).astype("float32"), real_y)
            if step % 20 == 0:
                print(step, d1, d2, g)


def runes(n):
    rng = np.random.default_rng(6)
    out = -np.ones((n, SIDE, SIDE, 1), "float32")
    for k in range(n):
        c = rng.integers(2, 14)
        out[k, 2:14, c] = 1
        out[k, rng.integers(2, 14), 2:14] = 1
    return out


if __name__ == "__main__":
    gan = RuneGAN()
    t = time.time()
    gan.train(runes(1000), 120)
    print("trained in", round(time.time() - t, 2))
