"""Contrastive pretraining on whale call features."""
import dataclasses

import keras
import numpy as np
import tensorflow as tf


@dataclasses.dataclass
class Config:
    calls: int = 200_000
    width: int = 256
    dim: int = 128
    batch: int = 256
    queue: int = 8192
    temperature: float = 0.1
    epochs: int = 4


def projector(cfg):
    return keras.Sequential(
        [
            keras.Input((cfg.width,)),
            keras.layers.Dense(512, activation="relu"),
            keras.layers.Dense(512, activation="relu"),
            keras.layers.Dense(cfg.dim),
            keras.layers.UnitNormalization(),
        ]
    )


def make_step(cfg, query_net, key_net, optimizer):
    signature = [
        tf.TensorSpec([cfg.batch, cfg.width], tf.float32),
        tf.TensorSpec([None, cfg.dim], tf.float32),
    ]

    @tf.function(input_signature=signature)
    def step(calls, bank):
        first = calls + tf.random.normal(tf.shape(calls), stddev=0.1)
        second = calls + tf.random.normal(tf.shape(calls), stddev=0.1)
        keys = tf.stop_gradient(key_net(second, training=False))
        with tf.GradientTape() as tape:
            queries = query_net(first, training=True)
            positive = tf.reduce_sum(queries * keys, axis=-1, keepdims=True)
            negative = tf.matmul(queries, bank, transpose_b=True)
            logits = tf.concat([positive, negative], axis=-1) / cfg.temperature
            target = tf.zeros([cfg.batch], tf.int32)
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(target, logits)
            )
        grads = tape.gradient(loss, query_net.trainable_variables)
        optimizer.apply_gradients(zip(grads, query_net.trainable_variables))
        for k, q in zip(key_net.weights, query_net.weights):
            k.assign(0.99 * k + 0.01 * q)
        return loss, keys

    return step


def main():
    cfg = Config()
    calls = np.random.default_rng(90).standard_normal((cfg.calls, cfg.width), dtype=np.float32)
    data = tf.data.Dataset.from_tensor_slices(calls).shuffle(8192)
    data = data.batch(cfg.batch, drop_remainder=True).prefetch(tf.data.AUTOTUNE)
    query_net, key_net = projector(cfg), projector(cfg)
    optimizer = keras.optimizers.Adam(1e-3)
    optimizer.build(query_net.trainable_variables)
    step = make_step(cfg, query_net, key_net, optimizer)
    bank = tf.math.l2_normalize(tf.random.normal((cfg.queue, cfg.dim)), axis=-1)
    for epoch in range(cfg.epochs):
        for batch in data:
            loss, keys = step(batch, bank)
            bank = tf.concat([bank, keys], axis=0)
        print(f"epoch {epoch}: {float(loss):.4f}")


if __name__ == "__main__":
    main()
