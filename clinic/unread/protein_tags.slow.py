"""Per-residue tagging of protein sequences."""
import argparse

import keras
import numpy as np
import tensorflow as tf

RESIDUES = 25
TAGS = 8


def sequences(count):
    rng = np.random.default_rng(31)
    lengths = np.clip(rng.lognormal(5.3, 0.6, count), 40, 2000).astype(np.int64)
    flat = rng.integers(1, RESIDUES, int(lengths.sum())).astype(np.int32)
    tags = rng.integers(0, TAGS, flat.shape[0]).astype(np.int32)
    return (
        tf.RaggedTensor.from_row_lengths(flat, lengths),
        tf.RaggedTensor.from_row_lengths(tags, lengths),
    )


def to_dense(tokens, tags):
    return tokens.to_tensor(), tags.to_tensor()


def batches(count, batch_size):
    ds = tf.data.Dataset.from_tensor_slices(sequences(count)).shuffle(4096)
    ds = ds.batch(batch_size, drop_remainder=True)
    ds = ds.map(to_dense, num_parallel_calls=tf.data.AUTOTUNE)
    return ds.prefetch(tf.data.AUTOTUNE)


def tagger():
    tokens = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(RESIDUES, 64)(tokens)
    for rate in (1, 2, 4, 8):
        y = keras.layers.Conv1D(64, 5, dilation_rate=rate, padding="same", activation="relu")(x)
        x = keras.layers.LayerNormalization()(keras.layers.Add()([x, y]))
    return keras.Model(tokens, keras.layers.Dense(TAGS)(x))


def make_step(model, optimizer, loss_mean):
    @tf.function
    def step(tokens, tags):
        mask = tf.cast(tokens > 0, tf.float32)
        with tf.GradientTape() as tape:
            logits = model(tokens, training=True)
            each = tf.nn.sparse_softmax_cross_entropy_with_logits(tags, logits)
            loss = tf.reduce_sum(each * mask) / tf.reduce_sum(mask)
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))
        loss_mean.update_state(loss)

    return step


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=12_000)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=5)
    args = parser.parse_args()

    model = tagger()
    optimizer = keras.optimizers.Adam(1e-3)
    optimizer.build(model.trainable_variables)
    loss_mean = keras.metrics.Mean()
    step = make_step(model, optimizer, loss_mean)
    data = batches(args.count, args.batch_size)
    for epoch in range(args.epochs):
        loss_mean.reset_state()
        for tokens, tags in data:
            step(tokens, tags)
        print(epoch, float(loss_mean.result()))


if __name__ == "__main__":
    main()
