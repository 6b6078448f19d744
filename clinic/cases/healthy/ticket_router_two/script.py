"""Route support tickets to teams: own tokenizer, wide text CNN."""
import collections
import random
import time
import numpy as np
import tensorflow as tf

TEAMS = ["billing", "network", "hardware", "accounts"]
MAXLEN = 80


def tickets(n):
    r = random.Random(0)
    words = ["w%d" % i for i in range(3000)]
    out = []
    for _ in range(n):
        team = r.randrange(4)
        body = [words[r.randrange(600) + 600 * team] if r.random() < 0.4 else r.choice(words) for _ in range(70)]
        out.append((" ".join(body), team))
    return out


class Tokenizer:
    def __init__(self, texts, size=2500):
        counter = collections.Counter()
        for text in texts:
            counter.update(text.split())
        self.index = {w: i + 2 for i, (w, _) in enumerate(counter.most_common(size))}

    def __call__(self, texts):
        ids = np.zeros((len(texts), MAXLEN), np.int32)
        for row, text in enumerate(texts):
            toks = [self.index.get(w, 1) for w in text.split()][:MAXLEN]
            ids[row, :len(toks)] = toks
        return ids


def build(vocab):
    L = tf.keras.layers
    inp = tf.keras.Input((MAXLEN,), dtype="int32")
    x = L.Embedding(vocab, 128)(inp)
    towers = [L.GlobalMaxPooling1D()(L.Conv1D(192, k, padding="same", activation="relu")(x)) for k in (3, 5, 7)]
    x = L.Dense(128, activation="relu")(L.Concatenate()(towers))
    return tf.keras.Model(inp, L.Dense(len(TEAMS))(x))


if __name__ == "__main__":
    tf.keras.utils.set_random_seed(0)
    data = tickets(1536)
    tok = Tokenizer([t for t, _ in data])
    x = tok([t for t, _ in data])
    y = np.array([team for _, team in data], np.int32)
    ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(len(x), seed=1).batch(64).prefetch(tf.data.AUTOTUNE)
    model = build(2502)
    model.compile(optimizer=tf.keras.optimizers.Adam(1e-3),
                  loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    begin = time.time()
    model.fit(ds, epochs=2, verbose=2)
    seconds = time.time() - begin
    print("WORK", 2 * len(x))
    print("TRAIN_SECONDS %.2f" % seconds)
