"""Two-tower retrieval on hashed user and item ids."""
import keras
import numpy as np
from keras import layers

USERS, ITEMS, DIM = 120_000, 40_000, 32
SHRINK = 1e-5


def tower(name, size):
    ids = keras.Input((), dtype="int32", name=name)
    vec = layers.Embedding(size, DIM, embeddings_regularizer=keras.regularizers.L2(SHRINK))(ids)
    h = layers.Dense(DIM, activation="relu")(vec)
    return ids, layers.Dense(16)(h)


def clicks(n):
    rng = np.random.default_rng(55)
    u = (rng.zipf(1.2, n) * 7919) % USERS
    i = (rng.zipf(1.2, n) * 104729) % ITEMS
    y = ((u + i) % 3 == 0).astype("float32")
    return {"user": u.astype("int32"), "item": i.astype("int32")}, y


def retrieval():
    user, u = tower("user", USERS)
    item, i = tower("item", ITEMS)
    score = layers.Dot(axes=1)([u, i])
    return keras.Model([user, item], score)


def main():
    keras.utils.set_random_seed(9)
    x, y = clicks(60_000)
    model = retrieval()
    model.compile(
        optimizer=keras.optimizers.SGD(0.5),
        loss=keras.losses.BinaryCrossentropy(from_logits=True),
        metrics=[keras.metrics.BinaryAccuracy(threshold=0.0)],
    )
    drop = keras.callbacks.LearningRateScheduler(lambda e, lr: 0.5 / (1 + e))
    h = model.fit(x, y, batch_size=256, epochs=4, callbacks=[drop], verbose=2)
    print("loss", h.history["loss"][-1])


if __name__ == "__main__":
    main()
