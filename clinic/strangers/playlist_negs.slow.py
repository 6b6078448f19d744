"""Playlist continuation by sampled softmax against popular tracks."""
import collections
import random

import numpy as np
import tensorflow as tf

random.seed(23)
tf.keras.utils.set_random_seed(23)

TRACKS, DIM, BATCH, NEG = 4000, 32, 128, 24


class Recommender(tf.Module):
    def __init__(self):
        super().__init__()
        self.tracks = tf.Variable(tf.random.normal((TRACKS, DIM), stddev=0.05))
        self.project = tf.keras.layers.Dense(DIM, activation="tanh")
        self.project.build((None, DIM))

    def encode(self, history):
        return self.project(tf.reduce_mean(tf.gather(self.tracks, history), axis=1))

    @property
    def weights(self):
        return [self.tracks] + self.project.trainable_variables


model = Recommender()


@tf.function
def train_step(history, positive, negatives, lr=0.5):
    with tf.GradientTape() as tape:
        query = model.encode(history)
        pos = tf.reduce_sum(query * tf.gather(model.tracks, positive), axis=-1, keepdims=True)
        neg = tf.matmul(query, tf.gather(model.tracks, negatives), transpose_b=True)
        logits = tf.concat([pos, neg], axis=1)
        target = tf.zeros(tf.shape(logits)[0], tf.int32)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(target, logits))
    for w, g in zip(model.weights, tape.gradient(loss, model.weights)):
        if isinstance(g, tf.IndexedSlices):
            w.scatter_sub(tf.IndexedSlices(lr * g.values, g.indices))
        else:
            w.assign_sub(lr * g)
    return loss


playlists = []
for _ in range(3000):
    genre = random.randrange(20) * 200
    playlists.append([genre + int(random.paretovariate(1.1)) % 200 for _ in range(11)])

popularity = collections.Counter(t for p in playlists for t in p)
ranked = [t for t, _ in popularity.most_common(1500)]
counts = [popularity[t] for t in ranked]

losses = []
for step in range(120):
    rows = np.array(random.sample(playlists, BATCH), dtype=np.int32)
    negatives = random.choices(ranked, weights=counts, k=NEG)
    loss = train_step(tf.constant(rows[:, :-1]), tf.constant(rows[:, -1]), negatives)
    losses.append(loss)
    if step % 40 == 39:
        print(step + 1, "loss", float(tf.add_n(losses[-40:]) / 40))
