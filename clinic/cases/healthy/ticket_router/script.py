"""Route support tickets to a desk. Tickets come in three size classes."""
import argparse

import numpy as np
import tensorflow as tf
import keras
from keras import layers

LENGTHS = (48, 96, 160)
VOCAB, DESKS = 600, 8


def tickets(n, rng):
    """Token ids per size class, padded to the class's length with 0."""
    desk = rng.integers(0, DESKS, n)
    size = np.minimum(rng.lognormal(4.0, 0.5, n).astype(int) + 5, LENGTHS[-1])
    out = []
    lower = 0
    for length in LENGTHS:
        rows = np.flatnonzero((size > lower) & (size <= length))
        tok = rng.integers(1, VOCAB, (len(rows), length))
        topical = rng.random(tok.shape) < 0.15
        tok = np.where(topical, 1 + desk[rows][:, None] * 20 + tok % 20, tok)
        tok[np.arange(length)[None, :] >= size[rows][:, None]] = 0
        out.append((tok.astype("int32"), desk[rows].astype("int32")))
        lower = length
    return out


def network(width):
    inp = keras.Input((None,), dtype="int32")
    h = layers.Embedding(VOCAB, 64)(inp)
    h = layers.Conv1D(width, 5, padding="same", activation="relu")(h)
    h = layers.Conv1D(width, 5, padding="same", activation="relu")(h)
    h = layers.GlobalMaxPooling1D()(h)
    return keras.Model(inp, layers.Dense(DESKS)(h))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--tickets", type=int, default=6000)
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--width", type=int, default=128)
    args = p.parse_args()
    keras.utils.set_random_seed(14)
    rng = np.random.default_rng(14)
    classes = tickets(args.tickets, rng)
    model = network(args.width)
    opt = keras.optimizers.Adam(1e-3)
    opt.build(model.trainable_variables)
    mean_loss = keras.metrics.Mean()
    hits = keras.metrics.SparseCategoricalAccuracy()

    @tf.function
    def step(tok, desk):
        with tf.GradientTape() as tape:
            logits = model(tok, training=True)
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels=desk, logits=logits))
        grads = tape.gradient(loss, model.trainable_variables)
        opt.apply_gradients(zip(grads, model.trainable_variables))
        mean_loss.update_state(loss)
        hits.update_state(desk, logits)

    for epoch in range(args.epochs):
        plan = []
        for k, (tok, _) in enumerate(classes):
            order = rng.permutation(len(tok))
            plan += [(k, order[i:i + args.batch])
                     for i in range(0, len(tok) - args.batch + 1, args.batch)]
        for j in rng.permutation(len(plan)):
            k, rows = plan[j]
            step(classes[k][0][rows], classes[k][1][rows])
        print(f"epoch {epoch + 1}: {len(plan)} steps, loss {float(mean_loss.result()):.4f}, "
              f"accuracy {float(hits.result()):.3f}")
        mean_loss.reset_state()
        hits.reset_state()


if __name__ == "__main__":
    main()
