"""Free-text customs declarations to tariff chapter; subword hashes, mean embedding, dense head."""
import random
import re
import time
import zlib

import keras
import numpy as np
from keras import layers

CHAPTERS, BUCKETS, MAX_TOKENS = 20, 4000, 48
STEMS = ["cotton", "steel", "valve", "leather", "frozen", "plastic", "motor", "ceramic", "paper", "optical",
         "rubber", "copper", "spice", "toy", "paint", "glass", "pump", "wool", "tea", "cable"]


def declarations(n):
    r = random.Random(5)
    texts, chapters = [], []
    for _ in range(n):
        chapter = r.randrange(CHAPTERS)
        words = [r.choice([STEMS[chapter], STEMS[chapter], r.choice(STEMS)]) + r.choice(["s", "", "-parts", "/used"])
                 for _ in range(r.randint(5, 12))]
        words.insert(2, f"{r.randint(1, 900)}kg")
        texts.append(" ".join(words).upper())
        chapters.append(chapter)
    return texts, np.array(chapters)


def subwords(text):
    ids = []
    for word in re.findall(r"[a-z]+|\d+", text.lower()):
        word = f"<{word}>"
        for k in (3, 4):
            for i in range(len(word) - k + 1):
                ids.append(1 + zlib.crc32(word[i:i + k].encode()) % (BUCKETS - 1))
    ids = ids[:MAX_TOKENS]
    return ids + [0] * (MAX_TOKENS - len(ids))


class DeclarationBatches(keras.utils.PyDataset):
    def __init__(self, texts, chapters, batch_size, **kwargs):
        super().__init__(**kwargs)
        self.texts, self.chapters, self.batch_size = texts, chapters, batch_size
        self.order = np.arange(len(texts))

    def __len__(self):
        return len(self.texts) // self.batch_size

    def __getitem__(self, index):
        rows = self.order[index * self.batch_size:(index + 1) * self.batch_size]
        ids = np.array([subwords(self.texts[i]) for i in rows], dtype="int32")
        return ids, self.chapters[rows]

    def on_epoch_end(self):
        np.random.shuffle(self.order)


def classifier():
    ids = keras.Input((MAX_TOKENS,), dtype="int32")
    h = layers.Embedding(BUCKETS, 24)(ids)
    h = layers.Conv1D(32, 3, activation="relu")(h)
    h = layers.GlobalMaxPooling1D()(h)
    h = layers.Dense(128, activation="relu")(h)
    return keras.Model(ids, layers.Dense(CHAPTERS, activation="softmax")(h))


keras.utils.set_random_seed(5)
texts, chapters = declarations(24000)
data = DeclarationBatches(texts, chapters, 256)
model = classifier()
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
start = time.time()
model.fit(data, epochs=6, verbose=2)
print("WORK", 6 * len(data) * 256)
print("TRAIN_SECONDS %.3f" % (time.time() - start))
