import numpy as np
import pandas as pd
import tensorflow as tf

ratings = pd.read_csv("ratings.csv")
users, items, scores = ratings.userId.values, ratings.movieId.values, ratings.rating.values.astype("float32")


class MF(tf.keras.Model):
    def __init__(self, n, m, k=50):
        super().__init__()
        self.u, self.v = tf.keras.layers.Embedding(n, k), tf.keras.layers.Embedding(m, k)

    def call(self, pair):
        return tf.reduce_sum(self.u(pair[0]) * self.v(pair[1]), 1)


model, opt = MF(users.max() + 1, items.max() + 1), tf.keras.optimizers.Adam()
dataset = tf.data.Dataset.from_tensor_slices((users, items, scores)).shuffle(100000).batch(1024)


def train_one(u, i, r):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model((u, i)) - r) ** 2)
    opt.apply_gradients(zip(tape.gradient(loss, model.trainable_weights), model.trainable_weights))
    return loss


for epoch in range(10):
    losses = []
    for u, i, r in dataset:
        losses.append(train_one(u, i, r).numpy())
    print(epoch, np.mean(losses))
