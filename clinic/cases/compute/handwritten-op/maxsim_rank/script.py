"""Late-interaction retrieval: queries meet documents token by token, in-batch negatives."""
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import keras
import numpy as np
import tensorflow as tf
from keras import layers

VOCAB, QLEN, DLEN, DIM = 2000, 8, 24, 32


def pairs(n=3200, seed=0):
    r = np.random.default_rng(seed)
    docs = r.integers(2, VOCAB, (n, DLEN))
    take = r.permuted(np.tile(np.arange(DLEN), (n, 1)), axis=1)[:, :QLEN]
    queries = np.take_along_axis(docs, take, axis=1)
    noise = r.random(queries.shape) < 0.25
    return np.where(noise, r.integers(2, VOCAB, queries.shape), queries).astype("int32"), docs.astype("int32")


@keras.saving.register_keras_serializable()
class TokenMatch(layers.Layer):
    """Score of every query against every document: best document token for each query token, summed."""

    def call(self, q, d):
        flat = tf.reshape(d, [-1, DIM])
        n = tf.shape(d)[0]

        def against_all(one):
            sim = tf.matmul(one, flat, transpose_b=True)
            sim = tf.reshape(sim, [QLEN, n, DLEN])
            return tf.reduce_sum(tf.reduce_max(sim, axis=-1), axis=0)

        return tf.map_fn(against_all, q)


class Retriever(keras.Model):
    def __init__(self):
        super().__init__()
        self.table = layers.Embedding(VOCAB, 48)
        self.mix = layers.Dense(DIM)
        self.match = TokenMatch()

    def encode(self, t):
        return tf.math.l2_normalize(self.mix(self.table(t)), axis=-1)

    def call(self, batch):
        q, d = batch
        return 0.5 * self.match(self.encode(q), self.encode(d))

    def train_step(self, batch):
        with tf.GradientTape() as tape:
            scores = self(batch, training=True)
            truth = tf.range(tf.shape(scores)[0])
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=truth, logits=scores))
        g = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply(g, self.trainable_variables)
        return {"loss": loss}


if __name__ == "__main__":
    ds = tf.data.Dataset.from_tensor_slices(pairs()).cache().shuffle(3200, seed=4).batch(32, drop_remainder=True)
    m = Retriever()
    m.compile(optimizer=keras.optimizers.Adam(2e-3))
    m.fit(ds.prefetch(4), epochs=4, verbose=2)
