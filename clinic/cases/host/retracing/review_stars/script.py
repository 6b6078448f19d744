"""Star ratings from review text, batches padded to their own longest review."""
import numpy as np
import tensorflow as tf
import keras

VOCAB, BATCH, STEPS = 5000, 32, 45


def corpus():
    rng = np.random.default_rng(9)
    lengths = rng.permutation(np.arange(30, 30 + STEPS)).repeat(BATCH)
    reviews = [rng.integers(1, VOCAB, k).tolist() for k in lengths]
    stars = rng.integers(0, 5, len(reviews)).astype("int32")
    return reviews, stars


def collate(reviews, stars):
    width = max(len(r) for r in reviews)
    tokens = np.zeros((len(reviews), width), "int32")
    for row, r in zip(tokens, reviews):
        row[:len(r)] = r
    return tokens, stars


def batches(reviews, stars):
    for k in range(0, len(reviews), BATCH):
        yield collate(reviews[k:k + BATCH], stars[k:k + BATCH])


class Stars(keras.Model):
    def __init__(self):
        super().__init__()
        self.embed = keras.layers.Embedding(VOCAB, 16, mask_zero=True)
        self.read = keras.layers.GRU(12)
        self.vote = keras.layers.Dense(5)

    def call(self, tokens):
        return self.vote(self.read(self.embed(tokens)))


keras.utils.set_random_seed(9)
model = Stars()
model(np.ones((2, 8), "int32"))
optimizer = keras.optimizers.SGD(0.05)
optimizer.build(model.trainable_variables)
loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function
def learn(tokens, stars):
    with tf.GradientTape() as tape:
        loss = loss_of(stars, model(tokens, training=True))
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
    return loss


reviews, stars = corpus()
total = 0.0
for n, (tokens, y) in enumerate(batches(reviews, stars), 1):
    total += learn(tokens, y)
print("mean loss", float(total) / n)
