"""Credit scoring from hashed categories; the averaged weights are what gets deployed."""
import keras
import numpy as np

keras.utils.set_random_seed(6)


def applicants(n=12_000, fields=12, codes=60_000):
    rng = np.random.default_rng(6)
    x = (rng.zipf(1.4, (n, fields)) * 2654435761 % codes).astype("int32")
    y = (x[:, :3] % 7 > 3).any(1).astype("float32")
    return x, y


def scorer(fields, codes=60_000):
    return keras.Sequential(
        [
            keras.Input((fields,), dtype="int32"),
            keras.layers.Embedding(codes, 32),
            keras.layers.Flatten(),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(1, activation="sigmoid"),
        ]
    )


class Smoothed:
    """Exponential moving average of the weights."""

    def __init__(self, model, decay=0.995):
        self.model = model
        self.decay = decay
        self.values = model.get_weights()
        self.gap = 0.0

    def follow(self, batch, logs):
        now = self.model.get_weights()
        self.values = [self.decay * a + (1.0 - self.decay) * b for a, b in zip(self.values, now)]
        self.gap = max(float(np.abs(a - b).max()) for a, b in zip(self.values, now))

    def install(self):
        self.model.set_weights(self.values)


x, y = applicants()
model = scorer(x.shape[1])
model.compile(keras.optimizers.SGD(0.1), "binary_crossentropy", metrics=["auc"])
smoothed = Smoothed(model)
hooks = [
    keras.callbacks.LambdaCallback(on_train_batch_end=smoothed.follow),
    keras.callbacks.LearningRateScheduler(lambda epoch, lr: lr * 0.9),
]
hist = model.fit(x, y, batch_size=32, epochs=2, verbose=2, callbacks=hooks)
smoothed.install()
print("gap", smoothed.gap, "train loss", hist.history["loss"][-1])
print("deployed loss", model.evaluate(x[:2000], y[:2000], verbose=0)[0])
