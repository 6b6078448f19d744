"""Gravitational shear from galaxy stamps; physics group's template."""
import time

import keras
import numpy as np
from keras import layers

keras.config.set_floatx("float64")


class ShearExperiment:
    side = 32
    samples = 2048
    batch = 64
    epochs = 5

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def stamps(self):
        g = self.rng.uniform(-0.3, 0.3, (self.samples, 2))
        yy, xx = np.mgrid[-1:1:self.side * 1j, -1:1:self.side * 1j]
        a = xx * (1 - g[:, :1, None]) - yy * g[:, 1:, None]
        b = yy * (1 + g[:, :1, None]) - xx * g[:, 1:, None]
        img = np.exp(-3 * (a * a + b * b)) + self.rng.normal(0, 0.02, (self.samples, self.side, self.side))
        return img[..., None], g

    def network(self):
        inp = keras.Input((self.side, self.side, 1))
        h = inp
        for width in (16, 32, 48):
            h = layers.Conv2D(width, 3, padding="same", activation="relu")(h)
            h = layers.AveragePooling2D(2)(h)
        h = layers.Flatten()(h)
        h = layers.Dense(64, activation="tanh")(h)
        return keras.Model(inp, layers.Dense(2, name="shear")(h))

    def run(self):
        x, g = self.stamps()
        net = self.network()
        net.compile(keras.optimizers.Nadam(1e-3), "mse", metrics=["mae"])
        t0 = time.time()
        net.fit(x, g, batch_size=self.batch, epochs=self.epochs, verbose=2)
        self.seconds = time.time() - t0
        bias = (net.predict(x[:256], verbose=0) - g[:256]).mean(0)
        print("additive bias", np.round(bias, 4))


if __name__ == "__main__":
    exp = ShearExperiment(19)
    exp.run()
    print("WORK", exp.samples * exp.epochs)
    print("TRAIN_SECONDS %.3f" % exp.seconds)
