"""Route support tickets to one of eight desks."""
import random
import re
import unicodedata

import numpy as np
import tensorflow as tf

random.seed(4)
tf.keras.utils.set_random_seed(4)

SYLLABLES = ["ma", "tor", "in", "vel", "qua", "ris", "pén", "log", "ste", "ful", "ing", "ation", "ed", "ly"]
LEXICON = ["".join(random.choices(SYLLABLES, k=random.randint(2, 4))) for _ in range(3000)]
STOP = ["the", "and", "is", "to", "of", "in", "my", "was", "a", "it", "not", "on", "for", "please"]
SUFFIXES = ("ation", "ing", "ful", "ed", "ly")


def fake_ticket():
    desk = random.randrange(8)
    words = random.choices(LEXICON[desk * 300:desk * 300 + 700], k=120) + random.choices(STOP, k=50)
    random.shuffle(words)
    return " ".join(words).capitalize() + f". Order #{random.randint(1, 99999)}!", desk


TICKETS = [fake_ticket() for _ in range(2500)]


def normalise(text):
    text = unicodedata.normalize("NFKD", text.lower())
    text = "".join(c for c in text if not unicodedata.combining(c))
    text = re.sub(r"#\d+", " ordernumber ", text)
    tokens = re.findall(r"[a-z]+", text)
    kept = []
    for tok in tokens:
        if tok in STOP:
            continue
        for suffix in SUFFIXES:
            if tok.endswith(suffix) and len(tok) > len(suffix) + 2:
                tok = tok[: -len(suffix)]
        kept.append(tok)
    return kept


VOCAB = {}
for text, _ in TICKETS[:600]:
    for tok in normalise(text):
        VOCAB.setdefault(tok, len(VOCAB) + 2)


def tickets():
    for text, desk in TICKETS:
        ids = [VOCAB.get(tok, 1) for tok in normalise(text)]
        yield np.array(ids[:128], dtype=np.int32), desk


train = tf.data.Dataset.from_generator(
    tickets,
    output_signature=(tf.TensorSpec([None], tf.int32), tf.TensorSpec([], tf.int32)),
)
train = train.shuffle(256, seed=4).padded_batch(32, padded_shapes=([128], [])).prefetch(tf.data.AUTOTUNE)

model = tf.keras.Sequential([
    tf.keras.layers.Embedding(len(VOCAB) + 2, 24),
    tf.keras.layers.GlobalAveragePooling1D(),
    tf.keras.layers.Dense(64, activation="relu"),
    tf.keras.layers.Dense(8),
])
model.compile(
    optimizer="sgd",
    loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
model.fit(train, epochs=4, verbose=2)
