"""Stars from review text: a convolutional reader, batches of three padded lengths."""
import time
from collections import Counter

import keras
import numpy as np
import tensorflow as tf

LENGTHS = (160, 240, 320)
VOCAB, BATCH, EPOCHS = 3000, 32, 3


def write_reviews(n, seed=0):
    rng = np.random.default_rng(seed)
    stars = rng.integers(0, 5, size=n)
    reviews = []
    for i in range(n):
        words = np.minimum(rng.zipf(1.3, size=rng.integers(90, LENGTHS[-1] + 1)), 20000)
        words[:: 9] = 100 + stars[i]
        reviews.append(words.tolist())
    return reviews, stars.astype(np.int32)


def index_words(reviews):
    counts = Counter()
    for review in reviews:
        counts.update(review)
    index = {w: i + 2 for i, (w, _) in enumerate(counts.most_common(VOCAB - 2))}
    return [[index.get(w, 1) for w in review] for review in reviews]


def bucketed(ids, stars):
    """One padded array per bucket, made once."""
    buckets = []
    low = 0
    for length in LENGTHS:
        rows = [i for i, r in enumerate(ids) if low < len(r) <= length]
        x = np.zeros((len(rows), length), np.int32)
        for k, i in enumerate(rows):
            x[k, :len(ids[i])] = ids[i]
        buckets.append((x, stars[rows]))
        low = length
    return buckets


def batches(buckets, rng):
    plan = [(b, s) for b, (x, _) in enumerate(buckets) for s in range(len(x) // BATCH)]
    orders = [rng.permutation(len(x)) for x, _ in buckets]
    for b, s in (plan[k] for k in rng.permutation(len(plan))):
        rows = orders[b][s * BATCH:(s + 1) * BATCH]
        yield tf.constant(buckets[b][0][rows]), tf.constant(buckets[b][1][rows])


def reader():
    ids = keras.Input((None,), dtype="int32")
    h = keras.layers.Embedding(VOCAB, 96)(ids)
    h = keras.layers.Conv1D(192, 5, padding="same", activation="relu")(h)
    h = keras.layers.Conv1D(192, 5, padding="same", activation="relu")(h)
    h = keras.layers.GlobalMaxPooling1D()(h)
    return keras.Model(ids, keras.layers.Dense(5)(h))


def main():
    keras.utils.set_random_seed(4)
    reviews, stars = write_reviews(860)
    buckets = bucketed(index_words(reviews), stars)
    model = reader()
    optimizer = keras.optimizers.Adam(1e-3)
    optimizer.build(model.trainable_variables)
    loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def train_step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_fn(y, model(x, training=True))
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))
        return loss

    rng = np.random.default_rng(8)
    seen = 0
    start = time.perf_counter()
    for epoch in range(EPOCHS):
        running = tf.zeros(())
        n = 0
        for x, y in batches(buckets, rng):
            running += train_step(x, y)
            n += 1
        seen += n * BATCH
        print(f"epoch {epoch}: loss {running.numpy() / n:.4f}")
    seconds = time.perf_counter() - start
    print("WORK", seen)
    print("TRAIN_SECONDS %.3f" % seconds)


if __name__ == "__main__":
    main()
