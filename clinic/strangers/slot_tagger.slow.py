"""Slot tagging for short commands. Batches are packed up to a token budget."""
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

VOCAB, TAGS = 600, 9
TOKENS_PER_BATCH = 640
EPOCHS = 3


class Corpus:
    def __init__(self, n=880, seed=2):
        rng = np.random.default_rng(seed)
        self.rng = rng
        lengths = np.clip(rng.gamma(5.0, 5.0, n).astype(int) + 4, 4, 64)
        self.words = [rng.integers(1, VOCAB, k) for k in lengths]
        self.tags = [(w // 7 + np.roll(w, 1) // 100) % TAGS for w in self.words]

    def collate(self, group):
        longest = max(len(self.words[i]) for i in group)
        w = np.zeros((len(group), longest), "int32")
        t = np.zeros((len(group), longest), "int32")
        m = np.zeros((len(group), longest), "float32")
        for row, i in enumerate(group):
            k = len(self.words[i])
            w[row, :k], t[row, :k], m[row, :k] = self.words[i], self.tags[i], 1.0
        return w, t, m

    def batches(self):
        keep = self.rng.choice(len(self.words), int(0.9 * len(self.words)), replace=False)
        order = sorted(keep, key=lambda i: len(self.words[i]))
        groups, group = [], []
        for i in order:
            if group and len(self.words[i]) * (len(group) + 1) > TOKENS_PER_BATCH:
                groups.append(group)
                group = []
            group.append(i)
        groups.append(group)
        for g in self.rng.permutation(len(groups)):
            yield self.collate(groups[g])


class Tagger(keras.Model):
    def __init__(self):
        super().__init__()
        self.emb = layers.Embedding(VOCAB, 24)
        self.conv = layers.Conv1D(48, 5, padding="same", activation="relu")
        self.out = layers.Dense(TAGS)

    def call(self, w):
        return self.out(self.conv(self.emb(w)))


model = Tagger()
model(np.zeros((1, 8), "int32"))
opt = keras.optimizers.Adam(3e-3)
opt.build(model.trainable_variables)


@tf.function
def learn(w, t, m):
    with tf.GradientTape() as tape:
        ce = tf.nn.sparse_softmax_cross_entropy_with_logits(t, model(w))
        loss = tf.reduce_sum(ce * m) / tf.reduce_sum(m)
    g = tape.gradient(loss, model.trainable_variables)
    opt.apply_gradients(zip(g, model.trainable_variables))
    return loss


corpus = Corpus()
t0 = time.time()
for epoch in range(EPOCHS):
    seen = []
    for w, t, m in corpus.batches():
        seen.append(learn(w, t, m))
    print("epoch", epoch, "batches", len(seen), "loss %.4f" % np.mean([s.numpy() for s in seen]))
print("TRAIN_SECONDS %.2f" % (time.time() - t0))
