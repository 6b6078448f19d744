"""Mood of short posts, trained with subword regularisation (a word is sometimes spelled out in pieces)."""
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

WORDS, VOCAB, POSTS, MAXLEN = 120, 600, 8000, 256
rng = np.random.default_rng(2)


def coin_words(n):
    letters = list('aeioubcdfglmnprstv')
    words = set()
    while len(words) < n:
        words.add(''.join(rng.choice(letters, int(rng.integers(5, 10)))))
    return sorted(words)


def write_posts(words, n):
    mood = rng.integers(0, 2, n)
    half = len(words) // 2
    cut = rng.integers(0, half, (n, WORDS)) + (rng.random((n, WORDS)) < .35 + .3 * mood[:, None]) * half
    return [' '.join(words[k] for k in row) for row in cut.tolist()], mood.astype('float32')


class Subwords:
    def __init__(self, words, dropout):
        self.dropout = dropout
        self.ids = {w: k + 1 for k, w in enumerate(words)}
        pieces = set(''.join(words))
        for w in words[::2]:
            pieces.update((w[:3], w[2:4], w[-2:]))
        for p in sorted(pieces):
            self.ids.setdefault(p, len(self.ids) + 1)

    def __len__(self):
        return len(self.ids) + 1

    def pieces(self, word):
        out, i = [], 0
        while i < len(word):
            for j in range(min(len(word), i + 3), i, -1):
                if word[i:j] in self.ids:
                    out.append(self.ids[word[i:j]])
                    i = j
                    break
        return out

    def tables(self, words):
        spelled = [self.pieces(w) for w in words]
        wide = max(map(len, spelled))
        whole, parts = np.zeros((2, len(words), wide), 'int32')
        for k, (word, out) in enumerate(zip(words, spelled)):
            whole[k, 0] = self.ids[word]
            parts[k, :len(out)] = out
        return whole, parts


class Posts:
    def __init__(self, texts, mood, codec, words):
        number = {w: k for k, w in enumerate(words)}
        self.rows = np.array([[number[w] for w in t.split()] for t in texts], 'int32')
        self.mood, self.dropout = mood, codec.dropout
        self.whole, self.parts = codec.tables(words)

    def encode(self, rows):
        split = rng.random(rows.shape) < self.dropout
        ids = np.where(split[..., None], self.parts[rows], self.whole[rows]).reshape(len(rows), -1)
        order = np.argsort(ids == 0, axis=1, kind='stable')[:, :MAXLEN]
        return np.take_along_axis(ids, order, 1)

    def as_dataset(self, batch):
        def batches():
            order = rng.permutation(len(self.rows))
            for k in range(0, len(order) - batch + 1, batch):
                take = order[k:k + batch]
                yield self.encode(self.rows[take]), self.mood[take]

        spec = (tf.TensorSpec((batch, MAXLEN), tf.int32), tf.TensorSpec((batch,), tf.float32))
        return tf.data.Dataset.from_generator(batches, output_signature=spec).prefetch(tf.data.AUTOTUNE)


words = coin_words(VOCAB)
texts, mood = write_posts(words, POSTS)
codec = Subwords(words, dropout=.4)
data = Posts(texts, mood, codec, words).as_dataset(64)

model = keras.Sequential([
    layers.Input((MAXLEN,), dtype='int32'),
    layers.Embedding(len(codec), 16, mask_zero=True),
    layers.GlobalAveragePooling1D(),
    layers.Dense(32, activation='relu'),
    layers.Dense(1, activation='sigmoid'),
])
model.compile('adam', 'binary_crossentropy', metrics=['accuracy'])
t0 = time.time()
model.fit(data, epochs=2, verbose=2)
print('TRAIN_SECONDS %.2f' % (time.time() - t0))
