import matplotlib.pyplot as plt
import numpy as np
from keras.datasets import mnist
from keras.layers import BatchNormalization, Dense, Flatten, Input, LeakyReLU, Reshape
from keras.models import Model, Sequential
from keras.optimizers import Adam


class GAN:
    def __init__(self):
        self.latent_dim = 100
        self.discriminator = Sequential([Flatten(input_shape=(28, 28, 1)), Dense(512), LeakyReLU(0.2), Dense(1, activation="sigmoid")])
        self.discriminator.compile(loss="binary_crossentropy", optimizer=Adam(0.0002, 0.5))
        self.generator = Sequential([Dense(256, input_dim=100), LeakyReLU(0.2), BatchNormalization(), Dense(784, activation="tanh"), Reshape((28, 28, 1))])
        z = Input(shape=(100,))
        self.discriminator.trainable = False
        self.combined = Model(z, self.discriminator(self.generator(z)))
        self.combined.compile(loss="binary_crossentropy", optimizer=Adam(0.0002, 0.5))

    def train(self, epochs, batch_size=128, sample_interval=50):
        (X_train, _), (_, _) = mnist.load_data()
        X_train = np.expand_dims(X_train / 127.5 - 1.0, axis=3)
        valid, fake = np.ones((batch_size, 1)), np.zeros((batch_size, 1))
        for epoch in range(epochs):
            imgs = X_train[np.random.randint(0, X_train.shape[0], batch_size)]
            noise = np.random.normal(0, 1, (batch_size, self.latent_dim))
            gen_imgs = self.generator.predict(noise)
            d_loss_real = self.discriminator.train_on_batch(imgs, valid)
            d_loss_fake = self.discriminator.train_on_batch(gen_imgs, fake)
            g_loss = self.combined.train_on_batch(np.random.normal(0, 1, (batch_size, self.latent_dim)), valid)
            if epoch % sample_interval == 0:
                self.sample_images(epoch)

    def sample_images(self, epoch):
        gen_imgs = self.generator.predict(np.random.normal(0, 1, (25, self.latent_dim)))
        fig, axs = plt.subplots(5, 5)
        for i in range(25):
            axs[i // 5, i % 5].imshow(gen_imgs[i, :, :, 0], cmap="gray")
        fig.savefig(f"images/{epoch}.png")
        plt.close()


if __name__ == "__main__":
    GAN().train(epochs=30000, batch_size=32)
