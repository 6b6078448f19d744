import random

import numpy as np
from tensorflow import keras
from tensorflow.keras.callbacks import LambdaCallback

text = open("nietzsche.txt").read().lower()
chars = sorted(set(text))
index = {c: i for i, c in enumerate(chars)}
maxlen, sentences, after = 40, [], []
for i in range(0, len(text) - 40, 3):
    sentences.append(text[i : i + 40])
    after.append(text[i + 40])
x = np.zeros((len(sentences), maxlen, len(chars)), dtype=bool)
y = np.zeros((len(sentences), len(chars)), dtype=bool)
for i, sentence in enumerate(sentences):
    for t, char in enumerate(sentence):
        x[i, t, index[char]] = 1
    y[i, index[after[i]]] = 1
model = keras.Sequential([keras.layers.LSTM(128, input_shape=(maxlen, len(chars))), keras.layers.Dense(len(chars), activation="softmax")])
model.compile("rmsprop", "categorical_crossentropy")


def on_epoch_end(epoch, _):
    start = random.randint(0, len(text) - maxlen - 1)
    sentence = text[start : start + maxlen]
    for i in range(400):
        x_pred = np.zeros((1, maxlen, len(chars)))
        for t, char in enumerate(sentence):
            x_pred[0, t, index[char]] = 1.0
        preds = model.predict(x_pred, verbose=0)[0]
        sentence = sentence[1:] + chars[np.argmax(preds)]
    print(sentence)


model.fit(x, y, batch_size=128, epochs=60, callbacks=[LambdaCallback(on_epoch_end=on_epoch_end)])
