from dataclasses import dataclass, field

import numpy as np
import tensorflow as tf
import keras
from keras import layers


@dataclass
class RetrievalConfig:
    num_users: int = 1_500_000
    num_items: int = 400_000
    dim: int = 64
    tower: list = field(default_factory=lambda: [128, 64])
    batch_size: int = 2048
    epochs: int = 6
    events: int = 4_000_000
    lr: float = 1e-3
    temperature: float = 0.07


def sample_events(cfg):
    rng = np.random.default_rng(2024)
    users = rng.integers(0, cfg.num_users, cfg.events, dtype=np.int32)
    items = np.minimum(rng.pareto(0.8, cfg.events) * 50, cfg.num_items - 1).astype(np.int32)
    items = (items + users % 97 * 31) % cfg.num_items
    return users, items


def mlp(sizes, name):
    net = keras.Sequential(name=name)
    for s in sizes[:-1]:
        net.add(layers.Dense(s, activation="relu"))
    net.add(layers.Dense(sizes[-1]))
    return net


class TwoTower(keras.Model):
    def __init__(self, cfg):
        super().__init__()
        self.user_table = layers.Embedding(cfg.num_users, cfg.dim)
        self.item_table = layers.Embedding(cfg.num_items, cfg.dim)
        self.user_mlp = mlp(cfg.tower, "user_mlp")
        self.item_mlp = mlp(cfg.tower, "item_mlp")

    def encode_users(self, u):
        return tf.math.l2_normalize(self.user_mlp(self.user_table(u)), axis=-1)

    def encode_items(self, i):
        return tf.math.l2_normalize(self.item_mlp(self.item_table(i)), axis=-1)

    def call(self, inputs):
        users, items = inputs
        return self.encode_users(users), self.encode_items(items)


def in_batch_softmax(u, v, temperature):
    logits = tf.matmul(u, v, transpose_b=True) / temperature
    labels = tf.range(tf.shape(logits)[0])
    return tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))


def event_batches(cfg):
    users, items = sample_events(cfg)
    order = np.random.default_rng(0).permutation(len(users))
    ds = tf.data.Dataset.from_tensor_slices((users[order], items[order]))
    ds = ds.batch(cfg.batch_size, drop_remainder=True, num_parallel_calls=tf.data.AUTOTUNE)
    return ds.cache().shuffle(500).prefetch(tf.data.AUTOTUNE)


def train(cfg):
    model = TwoTower(cfg)
    model((tf.zeros([1], tf.int32), tf.zeros([1], tf.int32)))
    variables = model.trainable_variables
    optimizer = keras.optimizers.Adam(cfg.lr)
    optimizer.build(variables)
    mean_loss = keras.metrics.Mean()

    @tf.function
    def train_step(users, items):
        with tf.GradientTape() as tape:
            u, v = model((users, items))
            loss = in_batch_softmax(u, v, cfg.temperature)
        grads = tape.gradient(loss, variables)
        optimizer.apply_gradients(zip(grads, variables))
        mean_loss.update_state(loss)

    ds = event_batches(cfg)
    for epoch in range(cfg.epochs):
        mean_loss.reset_state()
        for users, items in ds:
            train_step(users, items)
        print(f"epoch {epoch + 1}/{cfg.epochs} loss {float(mean_loss.result()):.4f}")
    return model


if __name__ == "__main__":
    keras.utils.set_random_seed(7)
    cfg = RetrievalConfig()
    model = train(cfg)
    model.save_weights("twotower.weights.h5")
