import numpy as np
import tensorflow as tf
from tensorflow.keras import layers


class WGANGP:
    def __init__(self, latent=128, n_critic=5):
        self.latent, self.n_critic = latent, n_critic
        self.generator = tf.keras.Sequential([layers.Dense(7 * 7 * 128, input_shape=(latent,)), layers.Reshape((7, 7, 128)), layers.Conv2DTranspose(64, 4, 2, "same", activation="relu"), layers.Conv2DTranspose(1, 4, 2, "same", activation="tanh")])
        self.critic = tf.keras.Sequential([layers.Conv2D(64, 4, 2, "same", input_shape=(28, 28, 1)), layers.LeakyReLU(), layers.Flatten(), layers.Dense(1)])
        self.g_opt, self.c_opt = tf.keras.optimizers.Adam(1e-4, 0.5), tf.keras.optimizers.Adam(1e-4, 0.5)

    def penalty(self, real, fake):
        mixed = real + tf.random.uniform([len(real), 1, 1, 1]) * (fake - real)
        with tf.GradientTape() as tape:
            tape.watch(mixed)
            out = self.critic(mixed)
        norm = tf.norm(tf.reshape(tape.gradient(out, mixed), [len(real), -1]), axis=1)
        return tf.reduce_mean((norm - 1) ** 2)

    def critic_step(self, real):
        with tf.GradientTape() as tape:
            fake = self.generator(tf.random.normal([len(real), self.latent]))
            loss = tf.reduce_mean(self.critic(fake)) - tf.reduce_mean(self.critic(real)) + 10 * self.penalty(real, fake)
        grads = tape.gradient(loss, self.critic.trainable_variables)
        self.c_opt.apply_gradients(zip(grads, self.critic.trainable_variables))
        return loss

    def generator_step(self, n):
        with tf.GradientTape() as tape:
            loss = -tf.reduce_mean(self.critic(self.generator(tf.random.normal([n, self.latent]))))
        grads = tape.gradient(loss, self.generator.trainable_variables)
        self.g_opt.apply_gradients(zip(grads, self.generator.trainable_variables))
        return loss

    def fit(self, dataset, epochs):
        for epoch in range(epochs):
            for i, real in enumerate(dataset):
                c_loss = self.critic_step(real)
                if i % self.n_critic == 0:
                    g_loss = self.generator_step(64)
            print(f"epoch {epoch}: {c_loss:.3f} {g_loss:.3f}")


if __name__ == "__main__":
    (x, _), _ = tf.keras.datasets.mnist.load_data()
    x = (x[..., None].astype("float32") - 127.5) / 127.5
    data = tf.data.Dataset.from_tensor_slices(x).shuffle(10000).batch(64, drop_remainder=True).prefetch(1)
    WGANGP().fit(data, 50)
