import os
import time

import numpy as np
import tensorflow as tf
from PIL import Image
from tensorflow.keras import layers, Model, Sequential

os.makedirs("samples", exist_ok=True)


def generator(z_dim):
    return Sequential([
        layers.Input((z_dim,)),
        layers.Dense(4 * 4 * 512, use_bias=False),
        layers.Reshape((4, 4, 512)),
        layers.BatchNormalization(), layers.ReLU(),
        layers.Conv2DTranspose(256, 4, 2, "same", use_bias=False), layers.BatchNormalization(), layers.ReLU(),
        layers.Conv2DTranspose(128, 4, 2, "same", use_bias=False), layers.BatchNormalization(), layers.ReLU(),
        layers.Conv2DTranspose(64, 4, 2, "same", use_bias=False), layers.BatchNormalization(), layers.ReLU(),
        layers.Conv2DTranspose(3, 4, 2, "same", activation="tanh"),
    ], name="G")


def discriminator():
    m = Sequential([layers.Input((64, 64, 3))], name="D")
    for f in (64, 128, 256, 512):
        m.add(layers.Conv2D(f, 4, 2, "same"))
        m.add(layers.LeakyReLU(0.2))
        m.add(layers.Dropout(0.2))
    m.add(layers.Flatten())
    m.add(layers.Dense(1))
    return m


class SpriteGAN:
    def __init__(self, z_dim=128, lr=2e-4):
        self.z_dim = z_dim
        self.G, self.D = generator(z_dim), discriminator()
        self.g_opt = tf.keras.optimizers.Adam(lr, beta_1=0.5)
        self.d_opt = tf.keras.optimizers.Adam(lr, beta_1=0.5)
        self.bce = tf.keras.losses.BinaryCrossentropy(from_logits=True)
        self.d_mean = tf.keras.metrics.Mean()
        self.g_mean = tf.keras.metrics.Mean()
        self.gallery = []

    @tf.function
    def train_step(self, batch):
        real = tf.cast(batch, tf.float32) / 127.5 - 1.0
        z = tf.random.normal((tf.shape(real)[0], self.z_dim))
        with tf.GradientTape() as gt, tf.GradientTape() as dt:
            fake = self.G(z, training=True)
            r = self.D(real, training=True)
            f = self.D(fake, training=True)
            d_loss = self.bce(0.9 * tf.ones_like(r), r) + self.bce(tf.zeros_like(f), f)
            g_loss = self.bce(tf.ones_like(f), f)
        self.g_opt.apply_gradients(zip(gt.gradient(g_loss, self.G.trainable_variables), self.G.trainable_variables))
        self.d_opt.apply_gradients(zip(dt.gradient(d_loss, self.D.trainable_variables), self.D.trainable_variables))
        self.d_mean.update_state(d_loss)
        self.g_mean.update_state(g_loss)
        return fake

    def contact_sheet(self, path):
        imgs = np.concatenate([t.numpy() for t in self.gallery[-2:]])[:64]
        imgs = ((imgs + 1) * 127.5).astype("uint8")
        rows = [np.concatenate(list(imgs[i:i + 8]), axis=1) for i in range(0, 64, 8)]
        Image.fromarray(np.concatenate(rows, axis=0)).save(path)

    def fit(self, ds, epochs):
        for epoch in range(1, epochs + 1):
            start = time.time()
            self.d_mean.reset_state()
            self.g_mean.reset_state()
            for batch in ds:
                fake = self.train_step(batch)
                self.gallery.append(fake)
            self.contact_sheet(f"samples/epoch_{epoch:03d}.png")
            print("epoch %d  D %.3f  G %.3f  %.0fs" % (
                epoch, self.d_mean.result(), self.g_mean.result(), time.time() - start))
            if epoch % 20 == 0:
                self.G.save("sprite_generator.keras")


sprites = np.load("sprites_64.npy")       # (38000, 64, 64, 3) uint8
print(sprites.shape, sprites.dtype)
ds = (tf.data.Dataset.from_tensor_slices(sprites)
      .shuffle(8000)
      .batch(128, drop_remainder=True)
      .prefetch(tf.data.AUTOTUNE))

gan = SpriteGAN()
gan.fit(ds, epochs=120)
gan.G.save("sprite_generator.keras")
