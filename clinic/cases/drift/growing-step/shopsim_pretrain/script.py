"""Self-supervised embeddings of shop items: two noisy views of an item must meet, everything seen before is a negative."""
from dataclasses import dataclass

import numpy as np
import tensorflow as tf
from tensorflow import keras


@dataclass
class Config:
    items: int = 20000
    features: int = 96
    dim: int = 64
    batch: int = 128
    steps: int = 420
    bank: int = 2048
    temperature: float = 0.1
    lr: float = 1e-3


cfg = Config()
rng = np.random.default_rng(5)
centers = rng.normal(size=(200, cfg.features)).astype("float32")
items = centers[rng.integers(0, 200, cfg.items)] + 0.4 * rng.normal(size=(cfg.items, cfg.features)).astype("float32")


def two_views(x):
    a = x + tf.random.normal(tf.shape(x), stddev=0.2)
    b = x * tf.cast(tf.random.uniform(tf.shape(x)) > 0.15, tf.float32)
    return a, b


pairs = (tf.data.Dataset.from_tensor_slices(items)
         .shuffle(4096).repeat().batch(cfg.batch, drop_remainder=True)
         .map(two_views, num_parallel_calls=tf.data.AUTOTUNE)
         .prefetch(tf.data.AUTOTUNE))


def make_encoder():
    return keras.Sequential([
        keras.Input((cfg.features,)),
        keras.layers.Dense(256, activation="gelu"),
        keras.layers.LayerNormalization(),
        keras.layers.Dense(256, activation="gelu"),
        keras.layers.Dense(cfg.dim),
        keras.layers.UnitNormalization(),
    ])


encoder, momentum_encoder = make_encoder(), make_encoder()
momentum_encoder.set_weights(encoder.get_weights())
opt = keras.optimizers.Adam(cfg.lr)
opt.build(encoder.trainable_variables)


@tf.function(input_signature=[tf.TensorSpec([None, cfg.features]), tf.TensorSpec([None, cfg.features]),
                              tf.TensorSpec([None, cfg.dim])])
def train_step(query, key, negatives):
    k = tf.stop_gradient(momentum_encoder(key))
    with tf.GradientTape() as tape:
        q = encoder(query, training=True)
        positive = tf.reduce_sum(q * k, axis=-1, keepdims=True)
        logits = tf.concat([positive, tf.matmul(q, negatives, transpose_b=True)], axis=1) / cfg.temperature
        labels = tf.zeros([tf.shape(q)[0]], tf.int32)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
    grads = tape.gradient(loss, encoder.trainable_variables)
    opt.apply_gradients(zip(grads, encoder.trainable_variables))
    for m, w in zip(momentum_encoder.variables, encoder.variables):
        m.assign(0.99 * m + 0.01 * w)
    return loss, k


queue = tf.math.l2_normalize(tf.random.normal([cfg.bank, cfg.dim]), axis=1)
for step, (q, k) in enumerate(pairs.take(cfg.steps)):
    loss, keys = train_step(q, k, queue)
    queue = tf.concat([queue, keys], axis=0)
    if step % 60 == 0:
        print(f"step {step:4d}  info-nce {float(loss):.3f}")
print("done", float(loss))
