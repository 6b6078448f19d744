# Completes mottoes on sundials, letter by letter.
import random
import time
from collections import Counter

import numpy as np
import tensorflow as tf
from tensorflow.keras import layers

random.seed(0)
tf.keras.utils.set_random_seed(0)

SUBJECTS = "the sun|the hour|a shadow|old time|the light|my finger|our life|each day|the night".split("|")
VERBS = "flies|counts|stays with|waits for|forgets|tells|passes|warms|follows".split("|")
OBJECTS = "no man|the bright hours|the stone|all things|none but thee|the garden|a word|the bell".split("|")
TAILS = "|and so dost thou|yet not in vain|be mindful|while thou readest|until the evening".split("|")


def motto():
    words = [random.choice(SUBJECTS), random.choice(VERBS), random.choice(OBJECTS), random.choice(TAILS)]
    return " ".join(w for w in words if w) + "."


text = " ".join(motto() for _ in range(7000))

# the alphabet, most frequent letter first
counts = Counter()
for letter in text:
    counts[letter] += 1
letters = [letter for letter, _ in counts.most_common()]
code = {letter: k for k, letter in enumerate(letters)}
codes = np.array([code[letter] for letter in text], np.int32)
print(f"{len(text)} letters, {len(letters)} different ones")

LENGTH, BATCH = 48, 192


def windows(codes):
    usable = (len(codes) - 1) // LENGTH * LENGTH
    x = codes[:usable].reshape(-1, LENGTH)
    y = codes[1 : usable + 1].reshape(-1, LENGTH)
    return x, y


def scribe():
    inputs = layers.Input((LENGTH,), dtype="int32")
    x = layers.Embedding(len(letters), 32)(inputs)
    x = layers.GRU(128, return_sequences=True)(x)
    x = layers.Dropout(0.1)(x)
    outputs = layers.Dense(len(letters))(x)
    return tf.keras.Model(inputs, outputs)


class Pace(tf.keras.callbacks.Callback):
    """Writes one line an epoch."""

    def on_epoch_begin(self, epoch, logs=None):
        self.began = time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        took = time.perf_counter() - self.began
        print(f"epoch {epoch}: loss {logs['loss']:.4f}, {took:.2f} s, {took / self.params['steps'] * 1e3:.1f} ms a step")


def complete(model, begin, count=40):
    """Greedy completion with a window that slides."""
    line = [code[c] for c in begin]
    for _ in range(count):
        window = line[-LENGTH:]
        padded = np.zeros((1, LENGTH), np.int32)
        padded[0, : len(window)] = window
        scores = model(tf.constant(padded), training=False)[0, len(window) - 1]
        line.append(int(tf.argmax(scores)))
    return "".join(letters[k] for k in line)


x, y = windows(codes)
model = scribe()
model.compile(
    optimizer=tf.keras.optimizers.Adam(3e-3),
    loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
)
start = time.perf_counter()
model.fit(x, y, batch_size=BATCH, epochs=5, verbose=0, callbacks=[Pace()])
print(f"trained in {time.perf_counter() - start:.2f} s")
print(complete(model, "the sun "))
