"""Which yarn goes with which pattern: two-tower model over a shop's catalogue."""
import numpy as np
import tensorflow as tf
import keras

N_YARNS, N_PATTERNS, FEATS = 60_000, 9_000, 128
BATCH = 256


class Shop:
    """Everything the shop knows, as arrays."""

    def __init__(self, seed=23):
        rng = np.random.default_rng(seed)
        self.yarns = rng.normal(size=(N_YARNS, FEATS))
        self.projects = np.stack([rng.integers(0, N_PATTERNS, 100_000),
                                  rng.integers(0, N_YARNS, 100_000)], 1).astype("int32")

    def baskets(self, seed):
        order = np.random.default_rng(seed).permutation(len(self.projects))
        for k in range(0, len(order) - BATCH + 1, BATCH):
            yield self.projects[order[k:k + BATCH]]


class TwoTower(keras.Model):
    def __init__(self, width=24):
        super().__init__()
        self.pattern = keras.layers.Embedding(N_PATTERNS, width)
        self.squeeze = keras.layers.Dense(64, activation="relu")
        self.yarn = keras.layers.Dense(width)

    def call(self, inputs):
        patterns, yarn_rows = inputs
        return tf.matmul(self.pattern(patterns), self.yarn(self.squeeze(yarn_rows)),
                         transpose_b=True)


class Recommender:
    def __init__(self, shop):
        self.shop = shop
        self.net = TwoTower()
        self.net((np.zeros(1, "int32"), np.zeros((1, FEATS), "float32")))
        self.opt = keras.optimizers.SGD(0.05)
        self.opt.build(self.net.trainable_variables)
        self.xent = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def _step(self, catalogue, projects):
        rows = tf.gather(tf.cast(catalogue, tf.float32), projects[:, 1])
        with tf.GradientTape() as tape:
            scores = self.net((projects[:, 0], rows))
            loss = self.xent(tf.range(BATCH), scores)
        grads = tape.gradient(loss, self.net.trainable_variables)
        self.opt.apply_gradients(zip(grads, self.net.trainable_variables))
        return loss

    def fit(self, epochs):
        for epoch in range(epochs):
            total, n = 0.0, 0
            for projects in self.shop.baskets(epoch):
                total += self._step(self.shop.yarns.astype("float32"), tf.constant(projects))
                n += 1
                if n == 110:
                    break
            print(f"epoch {epoch + 1}: loss {float(total) / n:.4f}")


if __name__ == "__main__":
    keras.utils.set_random_seed(23)
    Recommender(Shop()).fit(epochs=4)
