import pickle

import numpy as np
from keras.layers import LSTM, Activation, Dense, Dropout
from keras.models import Sequential
from keras.utils import to_categorical

notes = pickle.load(open("notes", "rb"))
names = sorted(set(notes))
to_int = {n: i for i, n in enumerate(names)}
length = 100
network_input, network_output = [], []
for i in range(len(notes) - length):
    network_input.append([to_int[n] for n in notes[i : i + length]])
    network_output.append(to_int[notes[i + length]])
x = np.reshape(network_input, (len(network_input), length, 1)) / float(len(names))
model = Sequential([LSTM(512, input_shape=(length, 1), return_sequences=True), Dropout(0.3), LSTM(512), Dense(len(names)), Activation("softmax")])
model.compile(loss="categorical_crossentropy", optimizer="rmsprop")
model.fit(x, to_categorical(network_output), epochs=200, batch_size=128)
pattern, generated = list(network_input[np.random.randint(0, len(network_input))]), []
for note_index in range(500):
    prediction_input = np.reshape(pattern, (1, len(pattern), 1)) / float(len(names))
    prediction = model.predict(prediction_input, verbose=0)
    index = np.argmax(prediction)
    generated.append(names[index])
    pattern = pattern[1:] + [index]
print(generated)
