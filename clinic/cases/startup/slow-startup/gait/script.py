"""Gait recognition from wearable sensors, a quick check of one split."""
import keras
import numpy as np
from keras import layers

SAMPLES, TIME, CHANNELS, PEOPLE = 1800, 48, 6, 5


def recordings():
    rng = np.random.default_rng(64)
    who = rng.integers(0, PEOPLE, SAMPLES)
    t = np.arange(TIME)[None, :, None]
    phase = rng.uniform(0, 6.28, (SAMPLES, 1, CHANNELS))
    x = np.sin(t * (0.2 + 0.05 * who[:, None, None]) + phase)
    return (x + rng.normal(0, 0.4, x.shape)).astype("float32"), who


def recurrent(units):
    return layers.LSTM(units, unroll=True, return_sequences=True)


def network():
    m = keras.Sequential(name="gait")
    m.add(keras.Input((TIME, CHANNELS)))
    m.add(recurrent(16))
    m.add(recurrent(16))
    m.add(layers.GlobalMaxPooling1D())
    m.add(layers.Dense(PEOPLE, activation="softmax"))
    m.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    return m


x, who = recordings()
keras.utils.set_random_seed(3)
test = np.arange(SAMPLES) % 5 == 0
net = network()
print(net.count_params(), "parameters")
h = net.fit(x[~test], who[~test], batch_size=20, epochs=1, verbose=0)
# held-out people are the same five, on other days
accuracy = (net.predict_on_batch(x[test]).argmax(1) == who[test]).mean()
print("loss %.3f, accuracy %.3f" % (h.history["loss"][-1], accuracy))
