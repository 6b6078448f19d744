"""Neural collaborative filtering with hit-rate@10 after every epoch."""
import numpy as np
import tensorflow as tf
from tensorflow.keras.layers import Concatenate, Dense, Embedding, Flatten, Input
from tensorflow.keras.models import Model

N_USERS, N_ITEMS, N_INTER = 3000, 1500, 200_000
NEG_EVAL = 99
EPOCHS = 6

rs = np.random.RandomState(123)
u = rs.randint(0, N_USERS, N_INTER).astype("int32")
i = (rs.zipf(1.3, N_INTER) % N_ITEMS).astype("int32")
holdout = rs.randint(0, N_ITEMS, N_USERS).astype("int32")


def with_negatives(u, i, ratio=4):
    nu = np.repeat(u, ratio)
    ni = rs.randint(0, N_ITEMS, len(nu)).astype("int32")
    users = np.concatenate([u, nu])
    items = np.concatenate([i, ni])
    y = np.concatenate([np.ones(len(u)), np.zeros(len(nu))]).astype("float32")
    p = rs.permutation(len(y))
    return users[p], items[p], y[p]


def ncf(k=32):
    ui, ii = Input((1,), dtype="int32"), Input((1,), dtype="int32")
    ue = Flatten()(Embedding(N_USERS, k)(ui))
    ie = Flatten()(Embedding(N_ITEMS, k)(ii))
    h = Concatenate()([ue, ie])
    for n in (64, 32, 16):
        h = Dense(n, activation="relu")(h)
    return Model([ui, ii], Dense(1, activation="sigmoid")(h))


def candidates():
    cand = rs.randint(0, N_ITEMS, (N_USERS, NEG_EVAL + 1)).astype("int32")
    cand[:, 0] = holdout
    return cand


def hit_rate(model, cand, k=10):
    users = np.repeat(np.arange(N_USERS, dtype="int32"), NEG_EVAL + 1)[:, None]
    items = cand.reshape(-1, 1)
    scores = model.predict([users, items], batch_size=8192, verbose=0)
    scores = scores.reshape(N_USERS, NEG_EVAL + 1)
    rank = (scores[:, 1:] > scores[:, :1]).sum(axis=1)
    return float((rank < k).mean())


def main():
    model = ncf()
    model.compile(optimizer="adam", loss="binary_crossentropy")
    cand = candidates()
    best = 0.0
    for epoch in range(EPOCHS):
        users, items, y = with_negatives(u, i)
        h = model.fit([users[:, None], items[:, None]], y, batch_size=4096, verbose=0)
        hr = hit_rate(model, cand)
        best = max(best, hr)
        print("epoch %d loss %.4f HR@10 %.4f best %.4f" % (epoch, h.history["loss"][0], hr, best))


if __name__ == "__main__":
    main()
