import argparse

import numpy as np
import tensorflow as tf
import keras

RATE = 16000
FRAME, HOP, MELS = 512, 256, 48

parser = argparse.ArgumentParser()
parser.add_argument("--clips", type=int, default=480)
parser.add_argument("--batch", type=int, default=24)
parser.add_argument("--epochs", type=int, default=7)
parser.add_argument("--species", type=int, default=12)
args = parser.parse_args()

MEL = tf.signal.linear_to_mel_weight_matrix(MELS, FRAME // 2 + 1, RATE, 300.0, 7500.0).numpy()
HANN = np.hanning(FRAME).astype("float32")


def synth(n, k, seed=11):
    rng = np.random.default_rng(seed)
    t = np.arange(RATE, dtype="float32") / RATE
    y = rng.integers(0, k, n)
    f0 = 900 + 420 * y
    sweep = rng.uniform(-400, 400, n)
    x = np.sin(2 * np.pi * (f0[:, None] * t + sweep[:, None] * t ** 2)).astype("float32")
    return x + rng.normal(0, 0.5, x.shape).astype("float32"), y.astype("int32")


def logmel(clip, shift):
    clip = np.roll(clip, int(shift))
    n = 1 + (len(clip) - FRAME) // HOP
    out = np.empty((n, MELS), "float32")
    for i in range(n):
        seg = clip[i * HOP:i * HOP + FRAME] * HANN
        power = np.abs(np.fft.rfft(seg)) ** 2
        out[i] = np.log(power.astype("float32") @ MEL + 1e-4)
    return out


def features(clip, label):
    shift = tf.random.uniform((), -4000, 4000, tf.int32)
    spec = tf.numpy_function(logmel, [clip, shift], tf.float32)
    return tf.ensure_shape(spec, (61, MELS)), label


clips, labels = synth(args.clips, args.species)
train = (tf.data.Dataset.from_tensor_slices((clips, labels))
         .shuffle(args.clips)
         .map(features, num_parallel_calls=tf.data.AUTOTUNE)
         .batch(args.batch, drop_remainder=True)
         .prefetch(tf.data.AUTOTUNE))

inp = keras.Input((61, MELS))
h = keras.layers.Reshape((61, MELS, 1))(inp)
for width in (8, 16, 32):
    h = keras.layers.Conv2D(width, 3, padding="same", activation="relu")(h)
    h = keras.layers.MaxPooling2D(2)(h)
h = keras.layers.GlobalAveragePooling2D()(h)
out = keras.layers.Dense(args.species)(h)
net = keras.Model(inp, out)
net.compile(optimizer=keras.optimizers.Adam(2e-3),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"])
net.fit(train, epochs=args.epochs, verbose=2)
