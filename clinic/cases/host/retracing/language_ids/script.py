"""Language identification from character ids; each batch is padded to its longest sentence."""
import time
import numpy as np
import tensorflow as tf
import keras

rng = np.random.default_rng(7)
sentences = [rng.integers(1, 96, rng.integers(10, 400)) for _ in range(3000)]
language = rng.integers(0, 6, len(sentences))

model = keras.Sequential([
    keras.layers.Embedding(96, 24),
    keras.layers.Conv1D(32, 5, activation="relu", padding="same"),
    keras.layers.GlobalMaxPooling1D(),
    keras.layers.Dense(6),
])
model.build((None, None))
opt = keras.optimizers.Adam(2e-3)
opt.build(model.trainable_variables)
ce = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function
def step(ids, lang):
    with tf.GradientTape() as tape:
        loss = ce(lang, model(ids, training=True))
    grads = tape.gradient(loss, model.trainable_variables)
    opt.apply_gradients(zip(grads, model.trainable_variables))
    return loss


def batches(size=20):
    order = rng.permutation(len(sentences))
    for k in range(0, len(order), size):
        pick = order[k:k + size]
        longest = max(len(sentences[i]) for i in pick)
        ids = np.zeros((size, longest), "int32")
        for row, i in enumerate(pick):
            ids[row, :len(sentences[i])] = sentences[i]
        yield tf.constant(ids), tf.constant(language[pick])


step(*next(batches()))
start, n = time.perf_counter(), 0
for ids, lang in batches():
    loss = step(ids, lang)
    n += 1
    if n % 50 == 0:
        print("step", n, "loss %.3f" % float(loss))
print("WORK", n * 20)
print("TRAIN_SECONDS %.3f" % (time.perf_counter() - start))
