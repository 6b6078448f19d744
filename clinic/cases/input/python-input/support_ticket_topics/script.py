"""Week 6 exercise: route customer support tickets to the right team (10 topics)."""
import math
import re
import time

import keras
import numpy as np
from keras import layers

NUM_TOPICS = 10
MAX_TOKENS = 120
VOCAB_SIZE = 3000
WORD = re.compile(r"[a-z']+")
STOPWORDS = {"the", "a", "of", "to", "and", "is", "it", "my", "i", "we", "on", "for", "not"}
SUFFIXES = ("ations", "ation", "ings", "ing", "edly", "ed", "ly", "es", "s")


# ---------------------------------------------------------------- data
def write_tickets(n, seed=11):
    rng = np.random.default_rng(seed)
    onsets, vowels = list("bcdfgklmnprstv"), list("aeiou")
    stems = []
    for _ in range(1500):
        k = rng.integers(2, 4)
        stems.append("".join(rng.choice(onsets) + rng.choice(vowels) for _ in range(k)))
    endings = np.array(["", "", "s", "ed", "ing", "ation", "ly"])
    topics = rng.integers(0, NUM_TOPICS, n)
    stems = np.array(stems)
    stop = np.array(sorted(STOPWORDS))
    tickets = []
    for topic in topics:
        words = stems[rng.integers(0, 1500, 100)]
        own = stems[topic * 40 + rng.integers(0, 40, 20)]
        text = np.char.add(np.concatenate([words, own]), endings[rng.integers(0, 7, 120)])
        text = np.concatenate([text, stop[rng.integers(0, len(stop), 30)]])
        rng.shuffle(text)
        tickets.append("Ticket: " + " ".join(text).capitalize() + ". Please advise!")
    return tickets, topics.astype("int32")


# ---------------------------------------------------------------- text processing
def stem(word):
    for suffix in SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= 3:
            return word[: -len(suffix)]
    return word


def clean(text):
    return [stem(w) for w in WORD.findall(text.lower()) if w not in STOPWORDS]


def build_vocabulary(texts):
    counts = {}
    for text in texts:
        for token in clean(text):
            counts[token] = counts.get(token, 0) + 1
    ranked = sorted(counts, key=counts.get, reverse=True)[: VOCAB_SIZE - 2]
    return {token: i + 2 for i, token in enumerate(ranked)}


class TicketSequence(keras.utils.PyDataset):
    def __init__(self, tickets, topics, vocabulary, batch_size=128, **kwargs):
        super().__init__(**kwargs)
        self.tickets = tickets
        self.topics = topics
        self.vocabulary = vocabulary
        self.batch_size = batch_size
        self.order = np.arange(len(tickets))

    def __len__(self):
        return math.ceil(len(self.tickets) / self.batch_size)

    def encode(self, text):
        ids = [self.vocabulary.get(token, 1) for token in clean(text)][:MAX_TOKENS]
        return ids + [0] * (MAX_TOKENS - len(ids))

    def __getitem__(self, index):
        rows = self.order[index * self.batch_size : (index + 1) * self.batch_size]
        x = np.zeros((len(rows), MAX_TOKENS), dtype="int32")
        for i, row in enumerate(rows):
            x[i] = self.encode(self.tickets[row])
        return x, self.topics[rows]

    def on_epoch_end(self):
        np.random.shuffle(self.order)


# ---------------------------------------------------------------- model
def make_model():
    inputs = keras.Input((MAX_TOKENS,), dtype="int32")
    h = layers.Embedding(VOCAB_SIZE, 16)(inputs)
    h = layers.Conv1D(16, 3, strides=3, activation="relu")(h)
    h = layers.GlobalMaxPooling1D()(h)
    h = layers.Dense(32, activation="relu")(h)
    outputs = layers.Dense(NUM_TOPICS, activation="softmax")(h)
    model = keras.Model(inputs, outputs)
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


if __name__ == "__main__":
    keras.utils.set_random_seed(0)
    tickets, topics = write_tickets(5120)
    vocabulary = build_vocabulary(tickets[:1000])
    model = make_model()

    start = time.time()
    train = TicketSequence(tickets, topics, vocabulary)
    history = model.fit(train, epochs=9, verbose=2)
    elapsed = time.time() - start

    print("accuracy", round(history.history["accuracy"][-1], 3))
    print("WORK", 9 * len(tickets))
    print("TRAIN_SECONDS %.3f" % elapsed)
