"""Early-warning score from 24 hours of vitals; one ward at a time, streaming like production."""
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers


class Ward:
    HOURS, SIGNALS = 24, 7

    def __init__(self, patients, seed):
        rng = np.random.default_rng(seed)
        drift = rng.normal(0, 0.6, (patients, 1, self.SIGNALS))
        steps = rng.normal(0, 1, (patients, self.HOURS, self.SIGNALS)) + 0.15 * drift
        self.vitals = (0.3 * steps.cumsum(1)).astype("float32")
        self.alarm = (drift[:, 0, :3].sum(1) > 0.5).astype("float32")

    def stream(self, per_update):
        ds = tf.data.Dataset.from_tensor_slices((self.vitals, self.alarm))
        ds = ds.cache().shuffle(len(self.alarm), seed=0)
        return ds.batch(per_update).prefetch(2)


class EarlyWarning:
    def __init__(self, ward, per_patient=True, lr=8e-4):
        self.ward = ward
        self.per_update = 1 if per_patient else 32
        self.model = keras.Sequential([
            layers.Input((Ward.HOURS, Ward.SIGNALS)),
            layers.GRU(24),
            layers.Dense(1, activation="sigmoid"),
        ])
        self.model.compile(keras.optimizers.Adam(lr), "binary_crossentropy", metrics=["accuracy"])

    def learn(self, epochs):
        return self.model.fit(self.ward.stream(self.per_update), epochs=epochs, verbose=2)


def main():
    keras.utils.set_random_seed(7)
    system = EarlyWarning(Ward(1100, seed=31))
    t0 = time.time()
    system.learn(epochs=1)
    print("TRAIN_SECONDS %.2f" % (time.time() - t0))
    holdout = Ward(400, seed=32)
    print(system.model.evaluate(holdout.stream(100), verbose=0, return_dict=True))


if __name__ == "__main__":
    main()
