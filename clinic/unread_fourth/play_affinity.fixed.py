"""Which player will pick which title next: two-tower affinity model on launcher telemetry."""
import argparse

import keras
import numpy as np
import tensorflow as tf
from keras import layers


def telemetry(n_rows, n_players, n_titles, seed=11):
    rng = np.random.default_rng(seed)
    players = rng.integers(0, n_players, n_rows, dtype=np.int32)
    titles = np.minimum(rng.zipf(1.3, n_rows), n_titles - 1).astype(np.int32)
    hours = rng.gamma(1.2, 3.0, n_rows)
    liked = (hours + 0.0001 * (titles % 97) > 3.0).astype(np.float32)
    return {"player": players, "title": titles}, liked[:, None]


class FiniteGradients:
    """Wraps an optimizer so that one bad record cannot poison the tables."""

    def __init__(self, optimizer, fill=0.0):
        self.optimizer = optimizer
        self.fill = fill

    def _clean(self, g):
        if isinstance(g, tf.IndexedSlices):
            return tf.IndexedSlices(self._clean(g.values), g.indices, g.dense_shape)
        return tf.where(tf.math.is_finite(g), g, self.fill)

    def step(self, grads, variables):
        self.optimizer.apply_gradients(zip(map(self._clean, grads), variables))


class Affinity(keras.Model):
    def __init__(self, n_players, n_titles, dim):
        super().__init__()
        self.player_table = layers.Embedding(n_players, dim, name="players")
        self.title_table = layers.Embedding(n_titles, dim, name="titles")
        self.mix = keras.Sequential([
            layers.Dense(128, activation="relu"),
            layers.Dense(64, activation="relu"),
            layers.Dense(1),
        ])
        self.bce = keras.metrics.Mean(name="bce")
        self.auc = keras.metrics.AUC(from_logits=True, name="auc")
        self.updater = None

    def attach(self, updater):
        self.updater = updater
        return self

    @property
    def metrics(self):
        return [self.bce, self.auc]

    def call(self, inputs, training=False):
        p = self.player_table(inputs["player"])
        t = self.title_table(inputs["title"])
        return self.mix(tf.concat([p, t, p * t], axis=-1), training=training)

    def _score(self, y, logits):
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=logits))

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            logits = self(x, training=True)
            loss = self._score(y, logits)
        grads = tape.gradient(loss, self.trainable_variables)
        self.updater.step(grads, self.trainable_variables)
        self.bce.update_state(loss)
        self.auc.update_state(y, logits)
        return {m.name: m.result() for m in self.metrics}

    def test_step(self, data):
        x, y = data
        logits = self(x, training=False)
        self.bce.update_state(self._score(y, logits))
        self.auc.update_state(y, logits)
        return {m.name: m.result() for m in self.metrics}


def part(x, y, rows):
    return {k: v[rows] for k, v in x.items()}, y[rows]


def main(argv=None):
    ap = argparse.ArgumentParser()
    ap.add_argument("--players", type=int, default=3_000_000)
    ap.add_argument("--titles", type=int, default=60_000)
    ap.add_argument("--dim", type=int, default=64)
    ap.add_argument("--rows", type=int, default=1_500_000)
    ap.add_argument("--batch", type=int, default=2048)
    ap.add_argument("--epochs", type=int, default=15)
    ap.add_argument("--lr", type=float, default=0.5)
    args = ap.parse_args(argv)

    x, y = telemetry(args.rows, args.players, args.titles)
    hold = args.rows // 20
    train = part(x, y, slice(hold, None))
    valid = part(x, y, slice(None, hold))

    sgd = keras.optimizers.SGD(args.lr)
    model = Affinity(args.players, args.titles, args.dim).attach(FiniteGradients(sgd))
    model.compile(optimizer=sgd, jit_compile=False)
    model.fit(*train, batch_size=args.batch, validation_data=valid, validation_batch_size=8192,
              epochs=args.epochs, verbose=2)


if __name__ == "__main__":
    main()
