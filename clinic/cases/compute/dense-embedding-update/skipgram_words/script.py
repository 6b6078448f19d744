"""Skip-gram with negative sampling and cosine similarity on a Zipf-distributed synthetic corpus."""
import time

import numpy as np
import tensorflow as tf
from tensorflow import keras

VOCAB, DIM, BATCH, NEG = 120_000, 48, 512, 5


def pairs(n):
    rng = np.random.default_rng(23)
    centre = np.minimum(rng.zipf(1.2, n), VOCAB) - 1
    context = (centre + rng.integers(1, 5, n)) % VOCAB
    return centre.astype("int32"), context.astype("int32")


class SkipGram(keras.layers.Layer):
    def build(self, _):
        self.words = self.add_weight(shape=(VOCAB, DIM), initializer="random_normal", name="words")
        self.contexts = self.add_weight(shape=(VOCAB, DIM), initializer="random_normal", name="contexts")

    def call(self, centre, context):
        unit = tf.math.l2_normalize(self.words, axis=-1)
        w = tf.gather(unit, centre)
        c = tf.math.l2_normalize(tf.gather(self.contexts, context), axis=-1)
        return 8.0 * tf.einsum("bd,bkd->bk", w, c)


def corpus():
    ds = tf.data.Dataset.from_tensor_slices(pairs(200_000)).shuffle(50_000).repeat().batch(BATCH, drop_remainder=True)

    def negatives(w, c):
        noise = tf.random.uniform((BATCH, NEG), 0, VOCAB, tf.int32)
        return w, tf.concat([c[:, None], noise], 1)

    return ds.map(negatives, num_parallel_calls=tf.data.AUTOTUNE).prefetch(4)


layer = SkipGram()
layer.build(None)
sgd = keras.optimizers.SGD(0.5)
sgd.build(layer.trainable_variables)
target = tf.concat([tf.ones((BATCH, 1)), tf.zeros((BATCH, NEG))], 1)


@tf.function
def train(w, c):
    with tf.GradientTape() as tape:
        logits = layer.call(w, c)
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=target, logits=logits))
    sgd.apply_gradients(zip(tape.gradient(loss, layer.trainable_variables), layer.trainable_variables))
    return loss


began = time.perf_counter()
for step, (w, c) in enumerate(corpus().take(150), 1):
    loss = train(w, c)
    if step % 50 == 0:
        print(f"{step} {float(loss):.4f} {time.perf_counter() - began:.1f}s")
