"""Next-day moves of grain futures from a wide table of indicators; weights are averaged for the forecast."""
import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(404)
rng = np.random.default_rng(404)

DAYS, INDICATORS = 5000, 60
x = rng.normal(size=(DAYS, INDICATORS)).astype("float32")
y = (np.tanh(x[:, :5].sum(1)) + 0.3 * rng.normal(size=DAYS)).astype("float32")


class SteadyWeights(keras.callbacks.Callback):
    """Exponential average of all weights, used when the forecast is made."""

    def __init__(self, decay=0.995):
        super().__init__()
        self.decay = decay
        self.mean = None
        self.gap = []

    def on_train_begin(self, logs=None):
        self.mean = [w.copy() for w in self.model.get_weights()]

    def on_train_batch_end(self, batch, logs=None):
        now = self.model.get_weights()
        self.mean = [self.decay * m + (1 - self.decay) * w for m, w in zip(self.mean, now)]
        self.gap.append(np.sqrt(sum(np.sum((m - w) ** 2) for m, w in zip(self.mean, now))))

    def on_train_end(self, logs=None):
        self.model.set_weights(self.mean)


def build():
    inp = keras.Input((INDICATORS,))
    h = layers.Dense(640, activation="relu")(inp)
    for _ in range(3):
        h = layers.Dense(640, activation="relu")(h)
    return keras.Model(inp, layers.Dense(1)(h))


model = build()
model.compile(optimizer=keras.optimizers.SGD(1e-2), loss="mse")
steady = SteadyWeights()
model.fit(x, y, batch_size=32, epochs=4, verbose=2, callbacks=[steady])
print("forecast", model.predict(x[-3:], verbose=0).ravel())
