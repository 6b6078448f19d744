"""Character model over a made-up verse corpus, printing samples as it learns."""
import sys
import time

import numpy as np
import keras
from keras import layers

MAXLEN = 32
STEP = 3

words = "the sea a stone moon over under grey wind night and river still bright home we go to sing of".split()
rng = np.random.default_rng(12)
text = " ".join(rng.choice(words, 2600)) + "\n"
chars = sorted(set(text))
char_to_id = {c: i for i, c in enumerate(chars)}
print("corpus length:", len(text), "chars:", len(chars))

ids = np.array([char_to_id[c] for c in text])
starts = np.arange(0, len(ids) - MAXLEN, STEP)[:3072]
x = np.eye(len(chars), dtype="float32")[ids[starts[:, None] + np.arange(MAXLEN)]]
y = ids[starts + MAXLEN]

model = keras.Sequential([
    layers.Input((MAXLEN, len(chars))),
    layers.LSTM(48),
    layers.Dense(len(chars), activation="softmax"),
])
model.compile(keras.optimizers.RMSprop(5e-3), "sparse_categorical_crossentropy")


def pick(probs, temperature):
    logits = np.log(probs.astype("float64") + 1e-9) / temperature
    p = np.exp(logits - logits.max())
    return int(np.random.choice(len(p), p=p / p.sum()))


class Recital(keras.callbacks.Callback):
    def __init__(self, temperatures=(0.3, 0.8), length=30):
        super().__init__()
        self.temperatures = temperatures
        self.length = length

    def next_probs(self, window):
        onehot = np.zeros((1, MAXLEN, len(chars)), "float32")
        for t, c in enumerate(window):
            onehot[0, t, char_to_id[c]] = 1.0
        return self.model.predict(onehot, verbose=0)[0]

    def on_epoch_end(self, epoch, logs=None):
        at = np.random.randint(0, len(text) - MAXLEN - 1)
        for temperature in self.temperatures:
            window = text[at:at + MAXLEN]
            line = ""
            for _ in range(self.length):
                c = chars[pick(self.next_probs(window), temperature)]
                window = window[1:] + c
                line += c
            sys.stdout.write("[%d, %.1f] %s\n" % (epoch, temperature, line))


t0 = time.time()
model.fit(x, y, batch_size=128, epochs=2, verbose=2, callbacks=[Recital()])
print("TRAIN_SECONDS %.2f" % (time.time() - t0))
