"""P-wave picker on three-component seismograms; band energies are the network's input."""
import io
import os
import tempfile

import keras
import numpy as np
import tensorflow as tf

N_EVENTS, LENGTH = 400, 12000


def archive(folder):
    rng = np.random.default_rng(2)
    path = os.path.join(folder, "events.npz")
    onset = rng.integers(2000, 9000, N_EVENTS)
    traces = rng.normal(0, 0.3, (N_EVENTS, LENGTH, 3)).astype("float32")
    for e, o in enumerate(onset):
        traces[e, o:o + 1500] += np.sin(np.arange(1500) / 6)[:, None]
    np.savez(path, traces=traces, onset=onset.astype("float32") / LENGTH)
    return path


def detrend(trace, onset):
    return trace - tf.reduce_mean(trace, axis=0, keepdims=True), onset


def band_energy(trace, onset):
    comps = tf.transpose(trace)
    z = tf.signal.stft(comps, frame_length=256, frame_step=48, fft_length=512)
    power = tf.math.log1p(tf.abs(z))
    edges = tf.reduce_mean(tf.reshape(power[:, :, :256], (3, -1, 16, 16)), -1)
    smooth = tf.nn.avg_pool1d(tf.transpose(tf.reshape(tf.transpose(edges, [1, 0, 2]), (1, -1, 48)), [0, 1, 2]), 3, 3, "SAME")
    return smooth[0], onset


def pipeline(path, batch=16):
    with np.load(path) as z:
        ds = tf.data.Dataset.from_tensor_slices((z["traces"], z["onset"]))
    ds = ds.map(detrend, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.cache()
    ds = ds.map(band_energy, num_parallel_calls=tf.data.AUTOTUNE)
    return ds.shuffle(N_EVENTS).batch(batch).prefetch(tf.data.AUTOTUNE)


def picker():
    inp = keras.Input((None, 48))
    x = keras.layers.Conv1D(32, 7, padding="same", activation="relu")(inp)
    score = keras.layers.Conv1D(1, 7, padding="same")(x)
    w = keras.layers.Softmax(axis=1)(score)
    x = keras.layers.Dot(axes=1)([w, x])
    return keras.Model(inp, keras.layers.Dense(1)(keras.layers.Flatten()(x)))


def main():
    with tempfile.TemporaryDirectory() as d:
        train = pipeline(archive(d))
        model = picker()
        model.compile(keras.optimizers.Adam(1e-3), "mae")
        model.fit(train, epochs=10, verbose=2, callbacks=[keras.callbacks.TerminateOnNaN()])


main()
