"""Tags for recipes from their ingredient lists."""
import time

import keras
import numpy as np
from keras import layers, ops

INGREDIENTS, MAX_ITEMS, TAGS = 6000, 20, 12


@keras.saving.register_keras_serializable()
class IngredientVectors(layers.Layer):
    def __init__(self, vocab, dim, **kwargs):
        super().__init__(**kwargs)
        self.vocab, self.dim = vocab, dim

    def build(self, shape):
        self.table = self.add_weight(shape=(self.vocab, self.dim), initializer="glorot_uniform", name="table")

    def call(self, ids):
        return ops.matmul(ops.one_hot(ids, self.vocab), self.table)

    def get_config(self):
        return {**super().get_config(), "vocab": self.vocab, "dim": self.dim}


class RecipeTagger:
    def __init__(self, dim=64):
        ids = keras.Input((MAX_ITEMS,), dtype="int32")
        v = IngredientVectors(INGREDIENTS, dim)(ids)
        a = layers.MultiHeadAttention(4, dim // 4)(v, v)
        h = layers.LayerNormalization()(v + a)
        h = layers.Dense(128, activation="relu")(h)
        h = layers.GlobalMaxPooling1D()(h)
        self.model = keras.Model(ids, layers.Dense(TAGS, activation="sigmoid")(h))
        self.model.compile(keras.optimizers.Adam(1e-3), "binary_crossentropy")

    def fit(self, x, y, epochs):
        return self.model.fit(x, y, batch_size=64, epochs=epochs, shuffle=True, verbose=2)


def cookbook(n=3200):
    rng = np.random.default_rng(12)
    x = np.minimum(rng.zipf(1.2, (n, MAX_ITEMS)), INGREDIENTS) - 1
    y = np.stack([(x % TAGS == t).sum(1) > 1 for t in range(TAGS)], 1)
    return x.astype("int32"), y.astype("float32")


if __name__ == "__main__":
    keras.utils.set_random_seed(12)
    x, y = cookbook()
    tagger = RecipeTagger()
    n_epochs = 3
    clock = time.time()
    tagger.fit(x, y, n_epochs)
    clock = time.time() - clock
    print("WORK", n_epochs * len(x))
    print("TRAIN_SECONDS %.2f" % clock)
