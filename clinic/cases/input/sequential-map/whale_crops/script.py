import argparse

import keras
import numpy as np
import tensorflow as tf

RATE = 4000
CLIP = RATE * 4
HOURS = []


def hydrophone(seed, n):
    r = np.random.default_rng(seed)
    t = np.arange(CLIP * 2) / RATE
    out = np.empty((n, CLIP * 2), "float32")
    for k in range(n):
        f0 = r.uniform(80, 900)
        out[k] = np.sin(2 * np.pi * (f0 + 30 * (k % 3) * t) * t) + r.normal(0, 0.5, t.size)
    return out, (np.arange(n) % 3).astype("int32")


def cut_and_transform(wave, species):
    clip = tf.image.random_crop(wave, [CLIP])
    spec = tf.abs(tf.signal.stft(clip, 512, 16, fft_length=512))
    mel = tf.signal.linear_to_mel_weight_matrix(48, 257, RATE, 40.0, 1900.0)
    logmel = tf.math.log(spec @ mel + 1e-4)
    logmel = tf.nn.avg_pool1d(logmel[None], 8, 8, "VALID")[0]
    return logmel, species


def recordings(args):
    waves, species = hydrophone(args.seed, 96)
    ds = tf.data.Dataset.from_tensor_slices((waves, species))
    ds = ds.shuffle(96, seed=args.seed).repeat()
    ds = ds.map(cut_and_transform)
    return ds.batch(args.batch).prefetch(2)


class CallNet(keras.Model):
    def __init__(self):
        super().__init__()
        self.conv = keras.layers.Conv1D(24, 5, strides=2, activation="relu")
        self.pool = keras.layers.GlobalMaxPooling1D()
        self.out = keras.layers.Dense(3)

    def call(self, x):
        return self.out(self.pool(self.conv(x)))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--batch", type=int, default=16)
    p.add_argument("--steps", type=int, default=150)
    p.add_argument("--seed", type=int, default=5)
    args = p.parse_args()
    keras.utils.set_random_seed(args.seed)
    net = CallNet()
    net.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    net.fit(recordings(args), steps_per_epoch=args.steps, epochs=2, verbose=2)


if __name__ == "__main__":
    main()
