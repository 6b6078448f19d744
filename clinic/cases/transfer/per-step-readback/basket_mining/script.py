"""Will this session end in a purchase?  Trained on the sessions the model still finds difficult."""
import time

import keras
import numpy as np
import tensorflow as tf


class Sessions:
    def __init__(self, n, seed=0):
        rng = np.random.default_rng(seed)
        self.clicks = rng.exponential(1.0, size=(n, 88)).astype(np.float32)
        self.category = rng.integers(0, 200, size=n).astype(np.int32)
        taste = rng.normal(size=200)
        w = rng.normal(size=88) / 9
        score = self.clicks @ w + taste[self.category] + rng.normal(0, 0.5, size=n)
        self.bought = (score > np.quantile(score, 0.8)).astype(np.float32)

    def __len__(self):
        return len(self.bought)


class HardExampleTable:
    """The last known loss of every session; difficult ones are drawn more often."""

    def __init__(self, n, keep=0.6, seed=7):
        self.loss = np.full(n, 5.0, np.float32)
        self.keep = keep
        self.rng = np.random.default_rng(seed)

    def draw(self):
        gumbel = self.rng.gumbel(size=len(self.loss))
        ranks = np.argsort(-(np.log(self.loss + 1e-4) + gumbel))
        chosen = ranks[: int(self.keep * len(ranks))]
        return self.rng.permutation(chosen)

    def record(self, rows, losses):
        for row, value in zip(rows, losses):
            self.loss[row] = float(value)


def purchase_model():
    clicks = keras.Input((88,), name="clicks")
    category = keras.Input((), dtype="int32", name="category")
    e = keras.layers.Embedding(200, 16)(category)
    h = keras.layers.Concatenate()([clicks, e])
    h = keras.layers.Dense(1024, activation="relu")(h)
    h = keras.layers.Dense(768, activation="relu")(h)
    return keras.Model([clicks, category], keras.layers.Dense(1)(h)[:, 0])


def train(sessions, rounds, batch):
    model = purchase_model()
    opt = keras.optimizers.SGD(0.02, momentum=0.9)
    opt.build(model.trainable_variables)
    table = HardExampleTable(len(sessions))

    @tf.function
    def update(clicks, category, bought):
        with tf.GradientTape() as tape:
            logits = model([clicks, category], training=True)
            each = tf.nn.sigmoid_cross_entropy_with_logits(labels=bought, logits=logits)
            loss = tf.reduce_mean(each)
        grads = tape.gradient(loss, model.trainable_variables)
        opt.apply_gradients(zip(grads, model.trainable_variables))
        return each

    seen = 0
    for r in range(rounds):
        order = table.draw()
        for s in range(0, len(order) - batch + 1, batch):
            rows = order[s:s + batch]
            each = update(tf.constant(sessions.clicks[rows]),
                          tf.constant(sessions.category[rows]),
                          tf.constant(sessions.bought[rows]))
            table.record(rows, each)
            seen += batch
        print(f"round {r}: mean table loss {table.loss.mean():.4f}, hardest {table.loss.max():.2f}")
    return seen


if __name__ == "__main__":
    keras.utils.set_random_seed(1)
    data = Sessions(25000)
    begin = time.perf_counter()
    samples = train(data, rounds=3, batch=256)
    took = time.perf_counter() - begin
    print("WORK", samples)
    print("TRAIN_SECONDS %.3f" % took)
