"""Momentum contrast on hydrophone spectrogram patches (unlabelled), encoder goes to the call classifier."""
import dataclasses
import time

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers


@dataclasses.dataclass
class MoCoConfig:
    patches: int = 24000
    side: int = 64
    dim: int = 128
    batch: int = 256
    epochs: int = 80
    momentum: float = 0.99
    temperature: float = 0.2
    bank_size: int = 8192
    lr: float = 3e-4


def load_patches(cfg):
    rng = np.random.default_rng(21)
    x = rng.integers(0, 90, (cfg.patches, cfg.side, cfg.side, 1), dtype=np.uint8)
    rows = rng.integers(8, cfg.side - 8, cfg.patches)
    x[np.arange(cfg.patches), rows, 10:50] += 120
    return x


def make_encoder(cfg):
    inp = keras.Input((cfg.side, cfg.side, 1))
    x = inp
    for ch in (32, 64, 128, 256):
        x = layers.Conv2D(ch, 3, strides=2, padding="same", use_bias=False)(x)
        x = layers.GroupNormalization(8)(x)
        x = layers.ReLU()(x)
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inp, layers.Dense(cfg.dim)(x))


def view(x, cfg):
    x = tf.cast(x, tf.float32) / 255.0
    b = tf.shape(x)[0]
    gain = tf.random.uniform((b, 1, 1, 1), 0.7, 1.3)
    shift = tf.random.uniform((), -6, 7, dtype=tf.int32)
    x = tf.roll(x * gain, shift, axis=2)
    band = tf.cast(tf.random.uniform((b, cfg.side, 1, 1)) > 0.1, tf.float32)
    return x * band + tf.random.normal(tf.shape(x), 0.0, 0.02)


class MoCo:
    def __init__(self, cfg):
        self.cfg = cfg
        self.query = make_encoder(cfg)
        self.key = make_encoder(cfg)
        self.key.set_weights(self.query.get_weights())
        self.opt = keras.optimizers.Adam(cfg.lr)
        self.opt.build(self.query.trainable_variables)
        self.loss = keras.metrics.Mean()
        self.step = tf.function(self._step, input_signature=[
            tf.TensorSpec((cfg.batch, cfg.side, cfg.side, 1), tf.uint8),
            tf.TensorSpec((None, cfg.dim), tf.float32),
        ])

    def _step(self, x, bank):
        cfg = self.cfg
        k = tf.math.l2_normalize(self.key(view(x, cfg), training=True), axis=1)
        k = tf.stop_gradient(k)
        with tf.GradientTape() as tape:
            q = tf.math.l2_normalize(self.query(view(x, cfg), training=True), axis=1)
            pos = tf.reduce_sum(q * k, axis=1, keepdims=True)
            neg = tf.matmul(q, bank, transpose_b=True)
            logits = tf.concat([pos, neg], axis=1) / cfg.temperature
            labels = tf.zeros((cfg.batch,), tf.int32)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
        grads = tape.gradient(loss, self.query.trainable_variables)
        self.opt.apply_gradients(zip(grads, self.query.trainable_variables))
        for wk, wq in zip(self.key.trainable_variables, self.query.trainable_variables):
            wk.assign(cfg.momentum * wk + (1.0 - cfg.momentum) * wq)
        self.loss.update_state(loss)
        return k


def main():
    cfg = MoCoConfig()
    tf.random.set_seed(2)
    ds = (tf.data.Dataset.from_tensor_slices(load_patches(cfg))
          .shuffle(cfg.patches)
          .batch(cfg.batch, drop_remainder=True)
          .prefetch(tf.data.AUTOTUNE))
    moco = MoCo(cfg)
    bank = tf.math.l2_normalize(tf.random.normal((cfg.bank_size, cfg.dim)), axis=1)
    for epoch in range(cfg.epochs):
        start = time.time()
        moco.loss.reset_state()
        for x in ds:
            keys = moco.step(x, bank)
            bank = tf.concat([bank, keys], axis=0)[-cfg.bank_size:]
        print(f"epoch {epoch + 1}/{cfg.epochs} loss {float(moco.loss.result()):.4f} ({time.time() - start:.1f}s)")
    moco.query.save("whale_encoder.keras")


if __name__ == "__main__":
    main()
