"""Metre tagging of verse lines with a small recurrent tagger and a consistency loss."""
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers, ops

tf.config.run_functions_eagerly(True)
keras.utils.set_random_seed(13)

SYLLABLES, STEPS, TAGS = 900, 20, 3


class MeterTagger(keras.Model):
    def __init__(self, dim=48, units=192, alpha=0.3):
        super().__init__()
        self.emb = layers.Embedding(SYLLABLES, dim)
        self.conv = [layers.Conv1D(units, 3, padding="same", activation="relu") for _ in range(2)]
        self.norm = [layers.LayerNormalization() for _ in range(2)]
        self.drop = layers.Dropout(0.2)
        self.tag = layers.Dense(TAGS)
        self.alpha = alpha
        self.loss_tracker = keras.metrics.Mean(name="loss")
        self.agree_tracker = keras.metrics.Mean(name="agree")

    @property
    def metrics(self):
        return [self.loss_tracker, self.agree_tracker]

    def call(self, x, training=False):
        h = self.emb(x)
        for conv, norm in zip(self.conv, self.norm):
            h = norm(conv(self.drop(h, training=training)))
        return self.tag(h)

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            a = self(x, training=True)
            b = self(x, training=True)
            ce = ops.mean(keras.losses.sparse_categorical_crossentropy(y, a, from_logits=True))
            gap = ops.mean(ops.square(ops.softmax(a) - ops.softmax(b)))
            loss = ce + self.alpha * gap
        grads = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.trainable_variables))
        self.loss_tracker.update_state(loss)
        self.agree_tracker.update_state(gap)
        return {m.name: m.result() for m in self.metrics}


def corpus(n=1600):
    rng = np.random.default_rng(0)
    x = rng.integers(0, SYLLABLES, (n, STEPS))
    y = (x + np.arange(STEPS)) % TAGS
    return x.astype("int32"), y.astype("int32")


x, y = corpus()
tagger = MeterTagger()
tagger.compile(optimizer=keras.optimizers.Adam(2e-3))
epochs = 2
t0 = time.time()
history = tagger.fit(x, y, batch_size=64, epochs=epochs, verbose=2)
t1 = time.time()
print("final loss", history.history["loss"][-1])
print("WORK", len(x) * epochs)
print("TRAIN_SECONDS %.2f" % (t1 - t0))
