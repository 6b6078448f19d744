"""Next-stitch model over knitting charts: a two-block causal transformer.

Charts are sampled from a random stitch grammar (a Markov chain); the logits
start from how often a stitch occurs at all.
"""
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

STITCHES = 48
ROW = 64
CHARTS = 960
DIM = 128
HEADS = 4
BATCH = 32
EPOCHS = 3


def stitch_grammar(rng):
    table = rng.gamma(0.3, 1.0, (STITCHES, STITCHES)) + 1e-3
    return table / table.sum(axis=1, keepdims=True)


def long_run_share(table):
    """Stationary distribution; in double, the eigenvalue next to 1 is close."""
    values, vectors = np.linalg.eig(table.T.astype(np.float64))
    share = np.abs(np.real(vectors[:, np.argmax(np.real(values))]))
    return share / share.sum()


def sample_charts(rng, table):
    cumulative = table.cumsum(axis=1)
    charts = np.empty((CHARTS, ROW + 1), np.int32)
    charts[:, 0] = rng.integers(0, STITCHES, CHARTS)
    for column in range(1, ROW + 1):
        u = rng.random((CHARTS, 1))
        picked = (cumulative[charts[:, column - 1]] < u).sum(axis=1)
        charts[:, column] = np.minimum(picked, STITCHES - 1)
    return charts


class Block(layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.norm_a = layers.LayerNormalization()
        self.attend = layers.MultiHeadAttention(HEADS, DIM // HEADS)
        self.norm_b = layers.LayerNormalization()
        self.widen = layers.Dense(4 * DIM, activation="relu")
        self.narrow = layers.Dense(DIM)

    def call(self, x):
        h = self.norm_a(x)
        x = x + self.attend(h, h, use_causal_mask=True)
        return x + self.narrow(self.widen(self.norm_b(x)))


class Positions(layers.Layer):
    def build(self, input_shape):
        self.table = self.add_weight(shape=(ROW, DIM), initializer="random_normal", name="table")

    def call(self, x):
        return x + self.table


def knitter():
    row = keras.Input((ROW,), dtype="int32")
    x = layers.Embedding(STITCHES, DIM)(row)
    x = Positions()(x)
    x = Block()(x)
    x = Block()(x)
    x = layers.LayerNormalization()(x)
    return keras.Model(row, layers.Dense(STITCHES, name="logits")(x))


def main():
    keras.utils.set_random_seed(29)
    rng = np.random.default_rng(29)
    grammar = stitch_grammar(rng)
    charts = sample_charts(rng, grammar)
    model = knitter()
    model.get_layer("logits").bias.assign(np.log(long_run_share(grammar)).astype(np.float32))
    optimizer = keras.optimizers.AdamW(1e-3)

    rows = (tf.data.Dataset.from_tensor_slices(charts)
            .shuffle(CHARTS, seed=29)
            .batch(BATCH, drop_remainder=True)
            .prefetch(tf.data.AUTOTUNE))

    @tf.function
    def learn(batch):
        with tf.GradientTape() as tape:
            logits = model(batch[:, :-1], training=True)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
                labels=batch[:, 1:], logits=logits))
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))
        return loss

    step = 0
    began = time.perf_counter()
    for epoch in range(EPOCHS):
        for batch in rows:
            loss = learn(batch)
            step += 1
            if step % 10 == 0:
                print(f"step {step:4d}  nats per stitch {loss.numpy():.4f}")
    print(f"TRAIN_SECONDS {time.perf_counter() - began:.2f}")


if __name__ == "__main__":
    main()
