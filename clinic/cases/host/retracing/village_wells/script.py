"""Federated averaging over village wells: each village trains on its own water tests,
the council averages the weights once per round."""
import numpy as np
import tensorflow as tf
import keras

VILLAGES = 60
TESTS = 320
FEATURES = 30
BATCH = 32


def water_tests(seed=101):
    rng = np.random.default_rng(seed)
    w = rng.normal(size=FEATURES)
    logbooks = {}
    for v in range(VILLAGES):
        x = rng.normal(rng.normal(0, .3), 1, (TESTS, FEATURES)).astype("float32")
        y = (x @ w + rng.normal(0, 1, TESTS) > 0).astype("float32")[:, None]
        logbooks[f"village_{v:02d}"] = (tf.constant(x), tf.constant(y))
    return logbooks


def make_model():
    return keras.Sequential([
        keras.Input((FEATURES,)),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dense(32, activation="relu"),
        keras.layers.Dense(1),
    ])


class Council:
    def __init__(self, logbooks):
        self.logbooks = logbooks
        self.model = make_model()
        self.opt = keras.optimizers.SGD(0.05)
        self.opt.build(self.model.trainable_variables)
        self.bce = keras.losses.BinaryCrossentropy(from_logits=True)

    @tf.function
    def local_step(self, batch):
        loss = 0.0
        with tf.GradientTape() as tape:
            for x, y in batch.values():
                loss += self.bce(y, self.model(x, training=True))
        grads = tape.gradient(loss, self.model.trainable_variables)
        self.opt.apply_gradients(zip(grads, self.model.trainable_variables))
        return loss

    def visit(self, village):
        x, y = self.logbooks[village]
        total = 0.0
        for k in range(0, TESTS, BATCH):
            total += self.local_step({village: (x[k:k + BATCH], y[k:k + BATCH])})
        return float(total) / (TESTS // BATCH)

    def round(self):
        start = self.model.get_weights()
        summed = [np.zeros_like(w) for w in start]
        losses = []
        for village in self.logbooks:
            self.model.set_weights(start)
            losses.append(self.visit(village))
            summed = [s + w for s, w in zip(summed, self.model.get_weights())]
        self.model.set_weights([s / len(self.logbooks) for s in summed])
        return losses


if __name__ == "__main__":
    keras.utils.set_random_seed(101)
    council = Council(water_tests())
    for r in range(2):
        losses = council.round()
        print(f"round {r}: mean {np.mean(losses):.4f} worst {np.max(losses):.4f}")
