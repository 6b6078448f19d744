"""Will the customer redeem the coupon? Pairwise interactions of categorical fields."""
import time
import keras
import numpy as np
from keras import layers, ops

keras.utils.set_random_seed(88)
rng = np.random.default_rng(88)

FIELDS, VALUES, DIM = 16, 50, 8


class FieldTable(layers.Layer):
    """One small table for every field, kept in one matrix."""

    def __init__(self, **kw):
        super().__init__(**kw)
        self.table = layers.Embedding(FIELDS * VALUES, DIM)

    def call(self, ids):
        return self.table(ids + np.arange(FIELDS, dtype="int32") * VALUES)


class Crosses(layers.Layer):
    """Inner products of all pairs of fields."""

    def call(self, e):
        found = []
        for i in range(FIELDS):
            for j in range(i + 1, FIELDS):
                found.append(ops.sum(e[:, i] * e[:, j], axis=-1, keepdims=True))
        return ops.concatenate(found, axis=-1)


def click_model():
    ids = keras.Input((FIELDS,), dtype="int32")
    e = FieldTable()(ids)
    crosses = Crosses()(e)
    h = layers.Concatenate()([layers.Flatten()(e), crosses])
    h = layers.Dense(64, activation="relu")(h)
    return keras.Model(ids, layers.Dense(1, activation="sigmoid")(h))


ids = rng.integers(0, VALUES, (51200, FIELDS)).astype("int32")
taste = rng.normal(size=(FIELDS, VALUES))
score = sum(taste[f, ids[:, f]] * taste[f + 1, ids[:, f + 1]] for f in range(FIELDS - 1))
redeemed = (score > 0).astype("float32")

model = click_model()
model.compile(optimizer=keras.optimizers.Adam(2e-3), loss="binary_crossentropy")
t0 = time.time()
model.fit(ids, redeemed, batch_size=128, epochs=3, verbose=2)
print(f"{time.time() - t0:.1f} s in fit")
