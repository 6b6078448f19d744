"""Arrhythmia from short electrocardiograms; a quick run to try the architecture."""
import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(120)
BEATS, LEADS = 90, 4


def recordings(n):
    rng = np.random.default_rng(120)
    t = np.linspace(0, 6, BEATS)
    x = np.sin(t[None, :, None] * rng.uniform(4, 9, (n, 1, LEADS)))
    return x.astype("float32"), (x[:, :, 0].std(1) > 0.7).astype("float32")


def rhythm_net():
    ecg = keras.Input((BEATS, LEADS))
    h = layers.LSTM(24, return_sequences=True, unroll=True)(ecg)
    h = layers.LSTM(24, unroll=True)(h)
    return keras.Model(ecg, layers.Dense(1, activation="sigmoid")(h))


def main():
    x, y = recordings(32 * 60)
    net = rhythm_net()
    net.compile(keras.optimizers.RMSprop(1e-3), "binary_crossentropy")
    losses = []
    for k in range(60):
        part = slice(k * 32, k * 32 + 32)
        losses.append(net.train_on_batch(x[part], y[part]))
    print("mean loss", float(np.mean(losses)))


if __name__ == "__main__":
    main()
