"""Next purchase category per customer; a ranking report after every epoch."""
import time

import keras
import numpy as np

CUSTOMERS, HISTORY, CATS = 6000, 20, 40


def purchases():
    rng = np.random.default_rng(12)
    taste = rng.dirichlet(np.full(CATS, 0.15), CUSTOMERS)
    cum = taste.cumsum(1)
    u = rng.random((CUSTOMERS, HISTORY + 1, 1))
    seq = (u > cum[:, None, :]).sum(-1).clip(0, CATS - 1)
    return seq[:, :-1].astype("int32"), seq[:, -1].astype("int32")


class RankingReport(keras.callbacks.Callback):
    """Hit rate in the top five for a fixed panel of customers."""

    def __init__(self, histories, targets):
        super().__init__()
        self.histories = histories
        self.targets = targets
        self.table = []

    def top(self, k=5):
        ranks = []
        for h in self.histories:
            scores = self.model.predict(h[None], verbose=0)
            ranks.append(np.argsort(-scores[0])[:k])
        return np.array(ranks)

    def on_epoch_end(self, epoch, logs=None):
        top = self.top()
        hit = (top == self.targets[:, None]).any(1).mean()
        self.table.append((epoch, hit))
        print(f"  panel hit@5 {hit:.3f}")


def basket_model():
    inp = keras.Input((HISTORY,), dtype="int32")
    e = keras.layers.Embedding(CATS, 24)(inp)
    a = keras.layers.MultiHeadAttention(2, 12)(e, e)
    h = keras.layers.LayerNormalization()(e + a)
    h = keras.layers.GlobalAveragePooling1D()(h)
    h = keras.layers.Dense(64, activation="relu")(h)
    return keras.Model(inp, keras.layers.Dense(CATS, activation="softmax")(h))


x, y = purchases()
panel = np.random.default_rng(0).choice(CUSTOMERS, 16, replace=False)
model = basket_model()
model.compile("adam", "sparse_categorical_crossentropy")
report = RankingReport(x[panel], y[panel])
t0 = time.time()
model.fit(x, y, batch_size=64, epochs=5, callbacks=[report], verbose=2)
spent = time.time() - t0
print("last hits", report.table[-3:])
print("WORK", CUSTOMERS * 5)
print("TRAIN_SECONDS %.2f" % spent)
