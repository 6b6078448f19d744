"""Emotion recognition from MFCC sequences (course project, group 7)."""
import random
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

EMOTIONS = ["neutral", "happy", "sad", "angry", "fear"]
N_MFCC = 20
BATCH = 16
EPOCHS = 2

random.seed(3)
np.random.seed(3)
keras.utils.set_random_seed(3)


class Utterance:
    def __init__(self, speaker):
        self.speaker = speaker
        self.label = np.random.randint(len(EMOTIONS))
        n = int(np.clip(np.random.lognormal(np.log(130), 0.5), 30, 700))
        t = np.arange(n)[:, None] * (0.02 + 0.03 * self.label)
        base = np.sin(t * np.arange(1, N_MFCC + 1)[None, :])
        self.mfcc = (base + 0.7 * np.random.randn(n, N_MFCC)).astype("float32")


def collate(utts):
    longest = max(u.mfcc.shape[0] for u in utts)
    x = np.zeros((len(utts), longest, N_MFCC), "float32")
    mask = np.zeros((len(utts), longest, 1), "float32")
    for i, u in enumerate(utts):
        n = u.mfcc.shape[0]
        x[i, :n] = u.mfcc
        mask[i, :n] = 1.0
    y = np.array([u.label for u in utts], "int32")
    return tf.constant(x), tf.constant(mask), tf.constant(y)


class EmotionNet(keras.Model):
    def __init__(self, width=160):
        super().__init__()
        self.c1 = layers.Conv1D(width, 5, padding="same", activation="relu")
        self.c2 = layers.Conv1D(width, 5, padding="same", activation="relu")
        self.c3 = layers.Conv1D(width, 3, padding="same", activation="relu")
        self.fc = layers.Dense(64, activation="relu")
        self.out = layers.Dense(len(EMOTIONS))

    def call(self, x, mask):
        h = self.c1(x) * mask
        h = self.c2(h) * mask
        h = self.c3(h) * mask
        pooled = tf.reduce_sum(h, 1) / tf.reduce_sum(mask, 1)
        return self.out(self.fc(pooled))


model = EmotionNet()
optimizer = keras.optimizers.Adam(5e-4)
loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
acc = keras.metrics.SparseCategoricalAccuracy()


@tf.function
def train_step(x, mask, y):
    with tf.GradientTape() as tape:
        logits = model(x, mask=mask)
        loss = loss_fn(y, logits)
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
    acc.update_state(y, logits)
    return loss


def batches(utts):
    utts = list(utts)
    random.shuffle(utts)
    for k in range(0, len(utts) - BATCH + 1, BATCH):
        yield collate(utts[k:k + BATCH])


if __name__ == "__main__":
    corpus = [Utterance(s % 24) for s in range(416)]
    model(tf.zeros((1, 40, N_MFCC)), mask=tf.ones((1, 40, 1)))
    optimizer.build(model.trainable_variables)
    seen = 0
    start = time.time()
    for epoch in range(EPOCHS):
        acc.reset_state()
        total = tf.zeros(())
        for x, mask, y in batches(corpus):
            total += train_step(x, mask, y)
            seen += BATCH
        print(f"epoch {epoch}: loss {float(total) * BATCH / len(corpus):.3f} acc {float(acc.result()):.3f}")
    spent = time.time() - start
    print("WORK", seen)
    print("TRAIN_SECONDS %.3f" % spent)
