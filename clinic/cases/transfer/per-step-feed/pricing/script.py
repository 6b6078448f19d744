"""Price elasticity from a wide customer table (one row per customer)."""
import keras
import numpy as np
import tensorflow as tf


class Ledger:
    """Purchases, with the customers they belong to."""

    def __init__(self, customers=50_000, width=96, purchases=60_000):
        rng = np.random.default_rng(31)
        self.table = rng.normal(size=(customers, width))
        self.who = rng.integers(0, customers, purchases)
        self.price = rng.gamma(2.0, 1.0, purchases)
        base = self.table[self.who, :5].sum(1)
        self.bought = (base - self.price + 2 > 0).astype("float32")

    def slices(self, size, rng):
        order = rng.permutation(len(self.who))
        for k in range(0, len(order) - size + 1, size):
            rows = order[k : k + size]
            yield self.who[rows], self.price[rows].astype("float32"), self.bought[rows]


class Elasticity(keras.Model):
    def __init__(self):
        super().__init__()
        self.hidden = keras.layers.Dense(48, activation="relu")
        self.slope = keras.layers.Dense(2)

    def call(self, customer, price):
        s = self.slope(self.hidden(customer))
        return s[:, 0] - tf.nn.softplus(s[:, 1]) * price


ledger = Ledger()
keras.utils.set_random_seed(4)
model = Elasticity()
opt = keras.optimizers.Adam(1e-3)
model(np.zeros((1, 96), "float32"), np.zeros(1, "float32"))
opt.build(model.trainable_variables)


@tf.function(reduce_retracing=True)
def update(table, who, price, bought):
    with tf.GradientTape() as tape:
        score = model(tf.gather(table, who), price)
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=bought, logits=score))
    g = tape.gradient(loss, model.trainable_variables)
    opt.apply_gradients(zip(g, model.trainable_variables))
    return loss


def run(epochs=1, size=256):
    rng = np.random.default_rng(1)
    loss = None
    for _ in range(epochs):
        for who, price, bought in ledger.slices(size, rng):
            customers = tf.convert_to_tensor(ledger.table, tf.float32)
            loss = update(customers, who, price, bought)
    return float(loss)


print("nll", run(epochs=2))
