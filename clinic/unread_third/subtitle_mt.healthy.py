"""Subtitle translation with length buckets and a small encoder-decoder."""
import keras
import numpy as np
import tensorflow as tf
from keras import layers

VOCAB = 8000
DIM = 256
STEPS = 5000


def subtitles(n=60_000):
    rng = np.random.default_rng(101)
    lengths = rng.integers(4, 60, n)
    rows = rng.integers(3, VOCAB, (n, 60)).astype(np.int32)
    return rows, lengths


def bucketed(rows):
    ds = tf.data.Dataset.from_tensor_slices(rows)
    ds = ds.shuffle(60_000).repeat()
    ds = ds.map(lambda row, n: row[:n], num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.bucket_by_sequence_length(
        lambda s: tf.shape(s)[0], [16, 32, 48], [256, 128, 96, 64], drop_remainder=True)
    ds = ds.map(lambda s: (s, tf.reverse(s, [1])), num_parallel_calls=tf.data.AUTOTUNE)
    return ds.prefetch(tf.data.AUTOTUNE)


def translator():
    src = keras.Input((None,), dtype="int32")
    prev = keras.Input((None,), dtype="int32")
    table = layers.Embedding(VOCAB, DIM)
    enc = layers.Bidirectional(layers.GRU(DIM // 2, return_sequences=True))(table(src))
    dec = layers.GRU(DIM, return_sequences=True)(table(prev))
    ctx = layers.Attention(use_scale=True)([dec, enc])
    h = layers.Dense(DIM, activation="tanh")(layers.Concatenate()([dec, ctx]))
    return keras.Model([src, prev], layers.Dense(VOCAB)(h))


model = translator()
optimizer = keras.optimizers.Adam(1e-3)
optimizer.build(model.trainable_variables)
running = keras.metrics.Mean()


@tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)] * 2)
def train_step(src, tgt):
    prev = tf.pad(tgt[:, :-1], [[0, 0], [1, 0]], constant_values=1)
    mask = tf.cast(tgt > 0, tf.float32)
    with tf.GradientTape() as tape:
        logits = model([src, prev], training=True)
        ce = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tgt, logits=logits)
        loss = tf.reduce_sum(ce * mask) / tf.reduce_sum(mask)
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
    running.update_state(loss)


def main():
    lr = 1e-3
    for step, (src, tgt) in enumerate(bucketed(subtitles()).take(STEPS), 1):
        train_step(src, tgt)
        if step % 500 == 0:
            lr *= 0.9
            optimizer.learning_rate.assign(lr)
            print(f"step {step} loss {float(running.result()):.3f} lr {lr:.2e}")
            running.reset_state()


if __name__ == "__main__":
    main()
