"""Multi-label tagging of support tickets, learned online from a stream, with a progressive AUC."""
import time

import keras
import numpy as np
import tensorflow as tf

TAGS = ["refund", "delivery", "account", "damage", "invoice", "praise"]
VOCAB, LENGTH, BATCH, STEPS = 4000, 40, 512, 300


def ticket_stream(seed):
    rng = np.random.default_rng(seed)
    triggers = rng.integers(1, VOCAB, size=(len(TAGS), 60))
    while True:
        words = np.minimum(rng.zipf(1.4, size=(BATCH, LENGTH)), VOCAB - 1).astype(np.int32)
        tags = rng.random((BATCH, len(TAGS))) < 0.25
        for k in range(len(TAGS)):
            hit = np.flatnonzero(tags[:, k])
            words[hit, rng.integers(0, LENGTH, len(hit))] = rng.choice(triggers[k], len(hit))
        yield words, tags.astype(np.float32)


def auc(truth, score):
    order = np.argsort(score)
    ranks = np.empty(len(score))
    ranks[order] = np.arange(1, len(score) + 1)
    positive = truth > 0.5
    p = positive.sum()
    n = len(truth) - p
    return (ranks[positive].sum() - p * (p + 1) / 2) / max(p * n, 1)


class ProgressiveAuc:
    """Test-then-train: every ticket is scored before the model learns from it."""

    def __init__(self, tags):
        self.tags = tags
        self.truth = np.empty((0, tags), np.float32)
        self.score = np.empty((0, tags), np.float32)

    def update(self, truth, score):
        self.truth = np.concatenate([self.truth, truth])
        self.score = np.concatenate([self.score, score])

    def result(self):
        return np.mean([auc(self.truth[:, k], self.score[:, k]) for k in range(self.tags)])


class Tagger(keras.Model):
    def __init__(self):
        super().__init__()
        self.embed = keras.layers.Embedding(VOCAB, 48)
        self.conv = keras.layers.Conv1D(64, 3, activation="relu")
        self.pool = keras.layers.GlobalMaxPooling1D()
        self.out = keras.layers.Dense(len(TAGS))

    def call(self, words):
        return self.out(self.pool(self.conv(self.embed(words))))


def main():
    keras.utils.set_random_seed(2)
    tagger = Tagger()
    tagger(np.zeros((1, LENGTH), np.int32))
    optimizer = keras.optimizers.Adam(2e-3)
    optimizer.build(tagger.trainable_variables)

    @tf.function
    def learn(words, tags):
        with tf.GradientTape() as tape:
            logits = tagger(words)
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=tags, logits=logits))
        grads = tape.gradient(loss, tagger.trainable_variables)
        optimizer.apply_gradients(zip(grads, tagger.trainable_variables))
        return loss, tf.sigmoid(logits)

    meter = ProgressiveAuc(len(TAGS))
    curve = []
    stream = ticket_stream(seed=6)
    start = time.perf_counter()
    for step in range(STEPS):
        words, tags = next(stream)
        loss, scores = learn(tf.constant(words), tf.constant(tags))
        meter.update(tags, scores.numpy())
        curve.append(meter.result())
        if step % 50 == 0:
            print(f"ticket {step * BATCH}: loss {float(loss):.4f} auc {curve[-1]:.4f}")
    seconds = time.perf_counter() - start
    print("final auc %.4f" % curve[-1])
    print("WORK", STEPS)
    print("TRAIN_SECONDS %.3f" % seconds)


if __name__ == "__main__":
    main()
