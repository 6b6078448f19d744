"""Classify single heartbeats (AAMI classes) cut out of a Holter recording."""
import argparse
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

CLASSES = ["N", "S", "V", "F", "Q"]


def fake_holter(n, width, seed):
    rng = np.random.default_rng(seed)
    labels = rng.choice(len(CLASSES), size=n, p=[0.7, 0.1, 0.1, 0.05, 0.05])
    t = np.linspace(-1, 1, width, dtype="float32")
    centre = (labels * 0.08).astype("float32")[:, None]
    sharp = (30 - 4 * labels).astype("float32")[:, None]
    beats = np.exp(-sharp * (t[None] - centre) ** 2)
    beats += rng.normal(0, 0.15, size=beats.shape).astype("float32")
    gain = rng.uniform(0.4, 2.5, size=(n, 1)).astype("float32")
    return (beats * gain).astype("float32"), labels.astype("int32")


def prepare(wave, label):
    centred = wave - tf.reduce_mean(wave, axis=-1, keepdims=True)
    spread = tf.sqrt(tf.reduce_mean(tf.square(centred), axis=-1, keepdims=True))
    wave = tf.clip_by_value(centred / (spread + 1e-4), -4.0, 4.0)
    return wave, tf.one_hot(label, len(CLASSES))


def pipeline(beats, labels, batch_size):
    ds = tf.data.Dataset.from_tensor_slices((beats, labels))
    ds = ds.shuffle(8192, seed=7)
    ds = ds.map(prepare, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.batch(batch_size, drop_remainder=True)
    return ds.prefetch(tf.data.AUTOTUNE)


def build(width):
    return keras.Sequential([
        layers.Input((width,)),
        layers.Dense(96, activation="relu"),
        layers.Dropout(0.1),
        layers.Dense(48, activation="relu"),
        layers.Dense(len(CLASSES), activation="softmax"),
    ])


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--beats", type=int, default=40000)
    p.add_argument("--width", type=int, default=96)
    p.add_argument("--batch", type=int, default=256)
    p.add_argument("--epochs", type=int, default=6)
    args = p.parse_args()

    keras.utils.set_random_seed(3)
    beats, labels = fake_holter(args.beats, args.width, seed=11)
    train = pipeline(beats, labels, args.batch)
    model = build(args.width)
    model.compile(optimizer=keras.optimizers.Adam(1e-3),
                  loss="categorical_crossentropy", metrics=["accuracy"])

    start = time.time()
    history = model.fit(train, epochs=args.epochs, verbose=2)
    seconds = time.time() - start
    print("final accuracy", history.history["accuracy"][-1])
    print("WORK", args.epochs * (args.beats // args.batch) * args.batch)
    print("TRAIN_SECONDS %.3f" % seconds)


if __name__ == "__main__":
    main()
