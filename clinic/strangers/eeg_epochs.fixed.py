"""Motor imagery EEG: trials are band-limited and re-referenced on their way into the net."""
import os
import time
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

CHANNELS, SAMPLES, FS = 16, 400, 160.0
FREQS = np.fft.rfftfreq(SAMPLES, 1 / FS)


def recordings(n=900, seed=4):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, CHANNELS, SAMPLES)).astype("float32")
    y = rng.integers(0, 2, n)
    t = np.arange(SAMPLES) / FS
    for k in range(n):
        x[k, 4 + 6 * y[k]] += 0.8 * np.sin(2 * np.pi * 11 * t + rng.uniform(0, 6))
    return x, y.astype("int32")


def bandpass(trial, lo, hi):
    spec = np.fft.rfft(trial, axis=-1)
    spec[..., (FREQS < lo) | (FREQS > hi)] = 0
    return np.fft.irfft(spec, n=SAMPLES, axis=-1)


def clean(trial):
    trial = trial - trial.mean(axis=0, keepdims=True)
    bands = [bandpass(trial, lo, hi) for lo, hi in ((4, 8), (8, 13), (13, 30), (30, 45))]
    power = np.stack([np.log(np.convolve(b ** 2, np.ones(40) / 40, "same")[::10] + 1e-6)
                      for band in bands for b in band])
    return power.T.astype("float32")


class Trials:
    def __init__(self, x, y, seed=0):
        self.x, self.y, self.rng = x, y, np.random.default_rng(seed)

    def dataset(self, batch):
        feats = np.stack([clean(trial) for trial in self.x])
        return (tf.data.Dataset.from_tensor_slices((feats, self.y)).shuffle(len(feats), seed=0)
                .batch(batch).prefetch(2))


def classifier():
    inp = keras.Input((SAMPLES // 10, CHANNELS * 4))
    h = layers.LayerNormalization()(inp)
    h = layers.Conv1D(48, 5, activation="elu")(h)
    h = layers.AveragePooling1D(2)(h)
    h = layers.Conv1D(48, 5, activation="elu")(h)
    h = layers.Dropout(0.3)(layers.GlobalAveragePooling1D()(h))
    return keras.Model(inp, layers.Dense(2)(h))


def main(epochs=5):
    trials = Trials(*recordings())
    net, opt = classifier(), keras.optimizers.Adam(1e-3)
    opt.build(net.trainable_variables)

    @tf.function(reduce_retracing=True)
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, net(x, training=True)))
        opt.apply_gradients(zip(tape.gradient(loss, net.trainable_variables), net.trainable_variables))
        return loss

    n, t0 = 0, time.perf_counter()
    ds = trials.dataset(32)
    for e in range(epochs):
        losses = []
        for x, y in ds:
            losses.append(step(x, y))
            n += int(y.shape[0])
        print("epoch", e, "loss %.4f" % np.mean(losses))
    print("WORK", n)
    print("TRAIN_SECONDS %.3f" % (time.perf_counter() - t0))


if __name__ == "__main__":
    main()
