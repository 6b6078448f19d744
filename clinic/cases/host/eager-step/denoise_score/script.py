"""Denoising autoencoder for piano rolls, own train_step."""
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers


class NoisyRoll(keras.Model):
    def __init__(self, notes=88, code=48, drop=0.2):
        super().__init__()
        self.drop = drop
        self.encoder = keras.Sequential([layers.Dense(128, activation="elu"), layers.LayerNormalization(),
                                         layers.Dense(96, activation="elu"), layers.Dense(code)])
        self.decoder = keras.Sequential([layers.Dense(96, activation="elu"), layers.LayerNormalization(),
                                         layers.Dense(128, activation="elu"), layers.Dense(notes)])
        self.loss_tracker = keras.metrics.Mean(name="loss")
        self.recall = keras.metrics.Recall(name="recall")

    @property
    def metrics(self):
        return [self.loss_tracker, self.recall]

    def call(self, x, training=False):
        return self.decoder(self.encoder(x))

    def corrupt(self, x):
        keep = tf.cast(tf.random.uniform(tf.shape(x)) > self.drop, x.dtype)
        ghost = tf.cast(tf.random.uniform(tf.shape(x)) < 0.01, x.dtype)
        return tf.clip_by_value(x * keep + ghost, 0.0, 1.0)

    def train_step(self, data):
        x = data[0] if isinstance(data, tuple) else data
        with tf.GradientTape() as tape:
            logits = self(self.corrupt(x), training=True)
            bce = tf.nn.sigmoid_cross_entropy_with_logits(labels=x, logits=logits)
            loss = tf.reduce_mean(tf.reduce_sum(bce, -1))
        grads = tape.gradient(loss, self.trainable_variables)
        grads, _ = tf.clip_by_global_norm(grads, 5.0)
        self.optimizer.apply_gradients(zip(grads, self.trainable_variables))
        self.loss_tracker.update_state(loss)
        self.recall.update_state(x, tf.sigmoid(logits))
        return {m.name: m.result() for m in self.metrics}


def chords(n, seed=4):
    rng = np.random.default_rng(seed)
    roll = np.zeros((n, 88), "float32")
    root = rng.integers(10, 60, n)
    third = rng.integers(3, 5, n)
    for off in (0, third, 7, 12):
        roll[np.arange(n), root + off] = 1.0
    return roll


roll = chords(16384)
model = NoisyRoll()
model.compile(optimizer=keras.optimizers.Adam(1e-3), run_eagerly=True)
t0 = time.time()
model.fit(roll, batch_size=128, epochs=1, verbose=2)
spent = time.time() - t0
print("WORK", len(roll))
print("TRAIN_SECONDS %.2f" % spent)
