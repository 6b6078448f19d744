"""Intent classification of help-desk tickets: vocabulary, padded ids, average-pooled embeddings."""
import random

import numpy as np
import keras
from keras import layers

WORDS = {
    "billing": "invoice charge refund card payment price tax receipt".split(),
    "login": "password reset account locked email verify token session".split(),
    "network": "vpn slow drop router signal timeout packet latency".split(),
    "hardware": "screen battery keyboard fan noise cable dock printer".split(),
}
FILLER = "please my the since today again why cannot help is it not with after update".split()


def tickets(n, seed=9):
    r = random.Random(seed)
    texts, tags = [], []
    names = list(WORDS)
    for _ in range(n):
        k = r.randrange(len(names))
        words = [r.choice(FILLER) if r.random() < 0.7 else r.choice(WORDS[names[k]]) for _ in range(r.randint(6, 30))]
        texts.append(" ".join(words))
        tags.append(k)
    return texts, np.array(tags)


def encode(texts, vec):
    return np.stack([np.asarray(vec([t]))[0] for t in texts])


def classifier(vocab):
    return keras.Sequential([
        keras.Input((32,), dtype="int64"),
        layers.Embedding(vocab, 64),
        layers.Conv1D(64, 3, activation="relu"),
        layers.GlobalMaxPooling1D(),
        layers.Dense(4, activation="softmax"),
    ])


texts, tags = tickets(9000)
vec = layers.TextVectorization(max_tokens=2000, output_sequence_length=32)
vec.adapt(texts)
ids = encode(texts, vec)
net = classifier(vec.vocabulary_size())
net.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
net.fit(ids, tags, batch_size=128, epochs=3, verbose=2)
