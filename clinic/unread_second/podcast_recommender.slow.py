"""Two-tower retrieval of podcast episodes with in-batch negatives."""
import keras
import numpy as np
import tensorflow as tf
from keras import layers

LISTENERS = 1_500_000
EPISODES = 400_000
DIM = 64


class Tower(keras.Model):
    def __init__(self, vocabulary, name):
        super().__init__(name=name)
        self.table = layers.Embedding(vocabulary, DIM)
        self.mlp = keras.Sequential([layers.Dense(128, activation="relu"), layers.Dense(DIM)])

    def call(self, ids):
        return tf.math.l2_normalize(self.mlp(self.table(ids)), axis=-1)


def plays(n=400_000):
    rng = np.random.default_rng(17)
    listener = rng.integers(0, LISTENERS, n)
    episode = np.minimum(rng.zipf(1.3, n), EPISODES) - 1
    return listener.astype("int32"), episode.astype("int32")


class Retrieval:
    def __init__(self, temperature=0.07):
        self.listener = Tower(LISTENERS, "listener")
        self.episode = Tower(EPISODES, "episode")
        for tower in (self.listener, self.episode):
            tower(tf.zeros((1,), tf.int32))
        self.temperature = temperature
        self.tables = [self.listener.table.embeddings, self.episode.table.embeddings]
        self.table_vars = [v.value for v in self.tables]
        self.dense = self.listener.mlp.trainable_variables + self.episode.mlp.trainable_variables
        self.dense_optimizer = keras.optimizers.Adam(1e-3)
        self.table_optimizer = keras.optimizers.Adam(1e-2)
        self.dense_optimizer.build(self.dense)
        self.table_optimizer.build(self.tables)

    @tf.function
    def step(self, listener, episode):
        with tf.GradientTape() as tape:
            u = self.listener(listener, training=True)
            v = self.episode(episode, training=True)
            logits = tf.matmul(u, v, transpose_b=True) / self.temperature
            labels = tf.range(tf.shape(u)[0])
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
            )
        table_grads, dense_grads = tape.gradient(
            loss, (self.table_vars, [v.value for v in self.dense])
        )
        self.dense_optimizer.apply_gradients(zip(dense_grads, self.dense))
        self.table_optimizer.apply_gradients(zip(table_grads, self.tables))
        return loss


def main(epochs=3, batch=1024):
    ds = tf.data.Dataset.from_tensor_slices(plays()).shuffle(20_000)
    ds = ds.batch(batch, drop_remainder=True).prefetch(tf.data.AUTOTUNE)
    model = Retrieval()
    for epoch in range(epochs):
        losses = []
        for listener, episode in ds:
            losses.append(model.step(listener, episode))
        print(f"epoch {epoch}: {float(tf.reduce_mean(losses)):.4f}")


if __name__ == "__main__":
    main()
