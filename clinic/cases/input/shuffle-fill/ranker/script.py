"""Pairwise ranking of search results, hand-written loop."""
import argparse

import keras
import numpy as np
import tensorflow as tf

p = argparse.ArgumentParser()
p.add_argument("--rounds", type=int, default=8)
p.add_argument("--steps", type=int, default=40)
p.add_argument("--batch", type=int, default=64)
p.add_argument("--lr", type=float, default=1e-3)
cfg = p.parse_args()

rng = np.random.default_rng(21)
QUERIES = 60_000
better = rng.standard_normal((QUERIES, 24)).astype("float32") + 0.2
worse = rng.standard_normal((QUERIES, 24)).astype("float32")


def lift(a, b):
    # log-scaled click counts live in the last four columns
    return (
        tf.concat([a[:20], tf.math.asinh(a[20:])], 0),
        tf.concat([b[:20], tf.math.asinh(b[20:])], 0),
    )


pairs = tf.data.Dataset.from_tensor_slices((better, worse))
pairs = pairs.map(lift, num_parallel_calls=tf.data.AUTOTUNE)
pairs = pairs.shuffle(QUERIES // 2).batch(cfg.batch).prefetch(2)

scorer = keras.Sequential(
    [
        keras.Input((24,)),
        keras.layers.Dense(64, activation="tanh"),
        keras.layers.Dense(64, activation="tanh"),
        keras.layers.Dense(1),
    ]
)
optimizer = keras.optimizers.Adam(cfg.lr)
optimizer.build(scorer.trainable_variables)
mean = keras.metrics.Mean()


@tf.function
def update(a, b):
    with tf.GradientTape() as tape:
        margin = scorer(a, training=True) - scorer(b, training=True)
        loss = tf.reduce_mean(tf.nn.softplus(-margin))
    grads = tape.gradient(loss, scorer.trainable_variables)
    optimizer.apply_gradients(zip(grads, scorer.trainable_variables))
    mean.update_state(loss)


for round_ in range(cfg.rounds):
    mean.reset_state()
    for a, b in pairs.take(cfg.steps):
        update(a, b)
    print(f"round {round_}: loss {float(mean.result()):.4f}")
