"""Will a listener keep a track in the playlist? Two id tables and a small tower."""
import time

import numpy as np
import keras
from keras import layers, ops

LISTENERS, TRACKS, WIDTH = 35_000, 75_000, 32
PLAYS = 76_800


def plays(seed=77):
    rng = np.random.default_rng(seed)
    who = (LISTENERS * rng.random(PLAYS) ** 2).astype("int32")
    what = (TRACKS * rng.random(PLAYS) ** 3).astype("int32")
    context = rng.normal(size=(PLAYS, 6)).astype("float32")
    kept = ((who % 5 + what % 7) / 10.0 + 0.3 * context[:, 0] > 0.5).astype("float32")
    return {"who": who, "what": what, "context": context}, kept


class Affinity(keras.Model):
    def __init__(self):
        super().__init__()
        init = keras.initializers.RandomUniform(-0.05, 0.05, seed=1)
        self.who = layers.Embedding(LISTENERS, WIDTH, embeddings_initializer=init)
        self.what = layers.Embedding(TRACKS, WIDTH, embeddings_initializer=init)
        self.tower = [layers.Dense(32, activation="relu"), layers.Dense(1)]

    def call(self, batch):
        u, v = self.who(batch["who"]), self.what(batch["what"])
        h = ops.concatenate([u, v, u * v, batch["context"]], axis=-1)
        for layer in self.tower:
            h = layer(h)
        return h


def make_optimizer(name, lr):
    table = {
        "adam": keras.optimizers.Adam,
        "nadam": keras.optimizers.Nadam,
        "rmsprop": keras.optimizers.RMSprop,
    }
    return table[name](learning_rate=lr)


def main(optimizer="adam", lr=2e-3, batch=512):
    keras.utils.set_random_seed(5)
    x, y = plays()
    model = Affinity()
    model.compile(
        make_optimizer(optimizer, lr),
        keras.losses.BinaryCrossentropy(from_logits=True),
        metrics=[keras.metrics.BinaryAccuracy(threshold=0.0)],
    )
    t0 = time.time()
    model.fit(x, y, batch_size=batch, epochs=1, verbose=2)
    print("TRAIN_SECONDS %.2f" % (time.time() - t0))


if __name__ == "__main__":
    main()
