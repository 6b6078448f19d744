"""Neural collaborative filtering for podcast plays (implicit feedback, sampled negatives)."""
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

N_LISTENERS = 250_000
N_EPISODES = 40_000
DIM = 16
BATCH = 4096
STEPS = 220
LOG_EVERY = 55

keras.utils.set_random_seed(2024)


def play_log(n_rows):
    rng = np.random.default_rng(5)
    listeners = rng.integers(0, N_LISTENERS, n_rows).astype(np.int32)
    episodes = np.minimum(rng.zipf(1.3, n_rows), N_EPISODES).astype(np.int32) - 1
    taste = (listeners * 7 + episodes * 13) % 10
    played = (taste < 4).astype(np.float32)
    return listeners, episodes, played


class NCF(tf.Module):
    def __init__(self):
        super().__init__()
        self.listener_table = tf.Variable(
            tf.random.normal([N_LISTENERS, DIM], stddev=0.05), name="listener_table")
        self.episode_table = tf.Variable(
            tf.random.normal([N_EPISODES, DIM], stddev=0.05), name="episode_table")
        self.tower = keras.Sequential([
            keras.Input((2 * DIM,)),
            layers.Dense(256, activation="relu"),
            layers.Dense(128, activation="relu"),
            layers.Dense(1),
        ])

    @property
    def weights(self):
        return [self.listener_table, self.episode_table] + self.tower.trainable_variables

    def score(self, listeners, episodes):
        u = tf.nn.embedding_lookup(self.listener_table, listeners)
        v = tf.nn.embedding_lookup(self.episode_table, episodes)
        deep = self.tower(tf.concat([u, v], axis=1))[:, 0]
        return deep + tf.reduce_sum(u * v, axis=1)


model = NCF()
optimizer = keras.optimizers.Adam(1e-3)
optimizer.build(model.weights)
bce = keras.losses.BinaryCrossentropy(from_logits=True)


@tf.function
def train_step(listeners, episodes, played):
    with tf.GradientTape() as tape:
        logits = model.score(listeners, episodes)
        loss = bce(played, logits)
    grads = tape.gradient(loss, model.weights)
    optimizer.apply_gradients(zip(grads, model.weights))
    return loss


dataset = (
    tf.data.Dataset.from_tensor_slices(
        tuple(column.reshape(-1, BATCH) for column in play_log(BATCH * STEPS // 4)))
    .shuffle(STEPS // 4)
    .repeat(4)
    .prefetch(2)
)

started = time.perf_counter()
running = tf.Variable(0.0, trainable=False)
done = 0
for step, (listeners, episodes, played) in enumerate(dataset, 1):
    running.assign_add(train_step(listeners, episodes, played))
    done += BATCH
    if step % LOG_EVERY == 0:
        print(f"step {step:4d}  bce {running.numpy() / LOG_EVERY:.4f}")
        running.assign(0.0)
elapsed = time.perf_counter() - started

print("WORK", done)
print("TRAIN_SECONDS", round(elapsed, 3))
