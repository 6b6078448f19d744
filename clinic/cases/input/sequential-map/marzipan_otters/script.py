# Toy bioacoustics: tell 12 "species" of synthetic whistles apart.
# Every clip is rendered fresh, so the network never hears the same one twice.
import functools
import math
import time

import tensorflow as tf
import keras

RATE = 32000
SPECIES = 12
BATCH = 16
STEPS = 650
TAU = 2.0 * math.pi
MEL = tf.signal.linear_to_mel_weight_matrix(32, 513, RATE, 100.0, 8000.0)


def whistle(ticket):
    label = tf.cast(ticket % SPECIES, tf.int32)
    t = tf.range(RATE, dtype=tf.float32) / RATE
    base = 350.0 + 70.0 * tf.cast(label, tf.float32) + tf.random.normal([], 0.0, 18.0)
    wobble = tf.random.uniform([], 5.0, 40.0) * tf.sin(TAU * tf.random.uniform([], 4.0, 9.0) * t)
    phase = TAU * tf.cumsum(base + wobble) / RATE
    tone = tf.sin(phase) + 0.4 * tf.sin(2.0 * phase) + 0.2 * tf.sin(3.0 * phase)
    return tone * tf.exp(-3.0 * t), label


def riverbank(wave, label):
    gain = tf.random.uniform([], 0.4, 1.0)
    return gain * wave + tf.random.normal(tf.shape(wave), stddev=0.15), label


def cochlea(wave, label):
    spec = tf.abs(tf.signal.stft(wave, frame_length=1024, frame_step=512))
    return tf.math.log(tf.matmul(spec, MEL) + 1e-4), label


def chain(source, *stages):
    return functools.reduce(lambda ds, stage: ds.map(stage), stages, source)


def listening_stream():
    tickets = tf.data.Dataset.random(seed=3)
    clips = chain(tickets, whistle, riverbank, cochlea)
    return clips.batch(BATCH, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


def ear():
    x = inp = keras.Input((61, 32))
    x = keras.layers.Conv1D(16, 5, strides=3, activation="relu")(x)
    x = keras.layers.GlobalMaxPooling1D()(x)
    x = keras.layers.Dense(48, activation="relu")(x)
    return keras.Model(inp, keras.layers.Dense(SPECIES)(x))


net = ear()
net.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
stream = listening_stream()
net.fit(stream, steps_per_epoch=5, epochs=1, verbose=0)

start = time.perf_counter()
hist = net.fit(stream, steps_per_epoch=STEPS, epochs=1, verbose=2)
seconds = time.perf_counter() - start
print("WORK", STEPS * BATCH)
print("TRAIN_SECONDS", round(seconds, 3))
