import numpy as np
from tensorflow.keras.layers import Dense, Flatten, Input, Reshape
from tensorflow.keras.models import Model, Sequential
from tensorflow.keras.datasets import mnist


class AdversarialAutoencoder:
    def __init__(self):
        self.encoder = Sequential([Flatten(input_shape=(28, 28)), Dense(512, activation="relu"), Dense(10)])
        self.decoder = Sequential([Dense(512, activation="relu", input_dim=10), Dense(784, activation="tanh"), Reshape((28, 28))])
        self.discriminator = Sequential([Dense(512, activation="relu", input_dim=10), Dense(1, activation="sigmoid")])
        self.discriminator.compile(loss="binary_crossentropy", optimizer="adam")
        img = Input((28, 28))
        code = self.encoder(img)
        self.discriminator.trainable = False
        self.both = Model(img, [self.decoder(code), self.discriminator(code)])
        self.both.compile(loss=["mse", "binary_crossentropy"], loss_weights=[0.999, 0.001], optimizer="adam")

    def train(self, epochs, batch_size=128):
        (x, _), _ = mnist.load_data()
        x = x.astype(np.float32) / 127.5 - 1
        valid, fake = np.ones((batch_size, 1)), np.zeros((batch_size, 1))
        for epoch in range(epochs):
            imgs = x[np.random.randint(0, len(x), batch_size)]
            latent_fake = self.encoder.predict(imgs)
            latent_real = np.random.normal(size=(batch_size, 10))
            d1 = self.discriminator.train_on_batch(latent_real, valid)
            d2 = self.discriminator.train_on_batch(latent_fake, fake)
            g = self.both.train_on_batch(imgs, [imgs, valid])
            if epoch % 200 == 0:
                print(epoch, d1, d2, g)


if __name__ == "__main__":
    AdversarialAutoencoder().train(20000)
