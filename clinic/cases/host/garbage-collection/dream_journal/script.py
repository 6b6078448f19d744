"""Nightmare or not? Dream journal entries -> TextVectorization -> bag of embeddings.

My first run was killed with an out-of-memory error after two hours, so memory is watched closely.
"""
import gc
import random

import tensorflow as tf
import keras

random.seed(6)
keras.utils.set_random_seed(6)

CALM = "river garden bread music friend window summer bicycle letter".split()
DARK = "falling teeth corridor shadow late exam running cellar silence".split()
FILL = "the a then i was in my with and again old house".split()


def write_entry(k):
    nightmare = k % 2
    themes = DARK if nightmare else CALM
    words = [random.choice(themes if random.random() < 0.25 else FILL) for _ in range(40)]
    return {"id": k, "night": {"hour": k % 8, "moon": k % 29},
            "words": words, "text": " ".join(words), "nightmare": nightmare}


journal = [write_entry(k) for k in range(8_000)]

vectorize = keras.layers.TextVectorization(max_tokens=200, output_sequence_length=40)
vectorize.adapt([e["text"] for e in journal[:500]])

model = keras.Sequential([
    keras.layers.Embedding(200, 24),
    keras.layers.Conv1D(32, 3, activation="relu"),
    keras.layers.GlobalMaxPooling1D(),
    keras.layers.Dense(1),
])
model.build((None, 40))
optimizer = keras.optimizers.Adam(1e-3)
optimizer.build(model.trainable_variables)
bce = keras.losses.BinaryCrossentropy(from_logits=True)


@tf.function(reduce_retracing=True)
def train_on(tokens, labels):
    with tf.GradientTape() as tape:
        loss = bce(labels, model(tokens, training=True))
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
    return loss


def entries():
    texts = tf.data.Dataset.from_tensor_slices([e["text"] for e in journal[:1920]])
    labels = tf.data.Dataset.from_tensor_slices([[float(e["nightmare"])] for e in journal[:1920]])
    return tf.data.Dataset.zip((texts, labels)).batch(32).map(
        lambda t, l: (vectorize(t), l), num_parallel_calls=tf.data.AUTOTUNE).prefetch(2)


for epoch in range(1):
    total = 0.0
    for n, (tokens, labels) in enumerate(entries(), 1):
        loss = train_on(tokens, labels)
        total += loss
        del tokens, labels, loss
        gc.collect()
    print("epoch", epoch, "loss", float(total) / n)
