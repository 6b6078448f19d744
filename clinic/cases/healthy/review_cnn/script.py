"""Star rating from product reviews, character of a research repo: own loop, own config, word dropout."""
import time
from types import SimpleNamespace

import numpy as np
import tensorflow as tf
import keras
from keras import layers

cfg = SimpleNamespace(vocab=6000, length=128, dim=128, channels=256, batch=32, reviews=768, epochs=3, drop=0.1)
rng = np.random.default_rng(12)


def fake_reviews():
    stars = rng.integers(0, 5, cfg.reviews)
    ids = rng.integers(2, cfg.vocab, (cfg.reviews, cfg.length))
    hint = rng.random(ids.shape) < 0.1
    ids[hint] = (2 + stars[:, None] * 50 + rng.integers(0, 50, ids.shape))[hint]
    lengths = rng.integers(cfg.length // 2, cfg.length + 1, cfg.reviews)
    ids[np.arange(cfg.length)[None, :] >= lengths[:, None]] = 0
    return ids.astype("int32"), stars.astype("int32")


def word_dropout(ids):
    ids = ids.copy()
    ids[(rng.random(ids.shape) < cfg.drop) & (ids > 0)] = 1
    return ids


def loader(ids, stars):
    def augment(x, y):
        x = tf.numpy_function(word_dropout, [x], tf.int32)
        x.set_shape([cfg.batch, cfg.length])
        return x, y

    ds = tf.data.Dataset.from_tensor_slices((ids, stars)).shuffle(len(ids))
    ds = ds.batch(cfg.batch, drop_remainder=True).map(augment, num_parallel_calls=2)
    return ds.prefetch(tf.data.AUTOTUNE)


class ReviewCNN(keras.Model):
    def __init__(self):
        super().__init__()
        self.embed = layers.Embedding(cfg.vocab, cfg.dim)
        self.convs = [layers.Conv1D(cfg.channels, 5, padding="same", activation="relu") for _ in range(3)]
        self.head = layers.Dense(5)

    def call(self, ids):
        x = self.embed(ids)
        for conv in self.convs:
            x = conv(x)
        return self.head(tf.reduce_max(x, axis=1))


model = ReviewCNN()
model(tf.zeros((1, cfg.length), tf.int32))
optimizer = keras.optimizers.SGD(0.02, momentum=0.9)
optimizer.build(model.trainable_variables)
cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function
def train_step(x, y, total):
    with tf.GradientTape() as tape:
        loss = cross_entropy(y, model(x, training=True))
    grads = tape.gradient(loss, model.trainable_variables)
    grads, _ = tf.clip_by_global_norm(grads, 5.0)
    optimizer.apply(grads, model.trainable_variables)
    total.assign_add(loss)


def main():
    ids, stars = fake_reviews()
    frequency = {}
    for row in ids[:100]:
        for word in row:
            frequency[int(word)] = frequency.get(int(word), 0) + 1
    print("most common word in a sample:", max((w for w in frequency if w), key=frequency.get))

    data, total, steps = loader(ids, stars), tf.Variable(0.0), 0
    start = time.perf_counter()
    for epoch in range(cfg.epochs):
        total.assign(0.0)
        n = 0
        for x, y in data:
            train_step(x, y, total)
            n += 1
        steps += n
        print(f"epoch {epoch}: loss {total.numpy() / n:.4f}")
    seconds = time.perf_counter() - start
    print("WORK", steps * cfg.batch)
    print(f"TRAIN_SECONDS {seconds:.3f}")


main()
