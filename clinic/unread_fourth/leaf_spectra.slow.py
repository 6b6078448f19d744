"""Tree species and leaf nitrogen from field spectrometer reflectance (1024 bands)."""
import functools

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

BANDS = 1024
SPECIES = 24
GRID = np.linspace(350.0, 2500.0, BANDS, dtype=np.float32)
WINDOW = np.hanning(13).astype(np.float32)
WINDOW /= WINDOW.sum()


def batch_op(*dtypes, shapes):
    def wrap(fn):
        @functools.wraps(fn)
        def op(*tensors):
            outs = tf.numpy_function(fn, tensors, dtypes)
            for out, shape in zip(outs, shapes):
                out.set_shape(shape)
            return tuple(outs)
        return op
    return wrap


@batch_op(tf.float32, shapes=[(None, BANDS)])
def field_variation(spectra):
    out = np.empty_like(spectra)
    for k, s in enumerate(spectra):
        offset = np.random.uniform(-6.0, 6.0)
        s = np.interp(GRID + offset, GRID, s)
        s = s * np.random.uniform(0.8, 1.2) + np.random.uniform(-0.05, 0.05)
        s = s + np.random.normal(0.0, 0.01, BANDS)
        s = np.convolve(s, WINDOW, mode="same")
        out[k] = (s - s.mean()) / (s.std() + 1e-6)
    return (out,)


def smooth_and_scale(spectra):
    s = tf.nn.conv1d(spectra[..., None], WINDOW[:, None, None], 1, "SAME")[..., 0]
    mean, var = tf.nn.moments(s, axes=[1], keepdims=True)
    return (s - mean) / (tf.sqrt(var) + 1e-6)


def measure(n, seed):
    rng = np.random.default_rng(seed)
    traits = np.random.default_rng(99)
    centre = traits.uniform(500, 2400, (SPECIES, 6)).astype(np.float32)
    depth = traits.uniform(0.02, 0.2, (SPECIES, 6)).astype(np.float32)
    kind = rng.integers(0, SPECIES, n).astype(np.int32)
    nitrogen = rng.normal(2.0, 0.5, n).astype(np.float32)
    s = np.full((n, BANDS), 0.5, np.float32)
    for j in range(6):
        c, d = centre[kind, j][:, None], depth[kind, j][:, None]
        s -= d * np.exp(-((GRID[None] - c) / 60.0) ** 2)
    s -= 0.05 * nitrogen[:, None] * np.exp(-((GRID[None] - 1510.0) / 40.0) ** 2)
    return s, {"species": kind, "nitrogen": nitrogen}


def training_stream(n, batch):
    ds = tf.data.Dataset.from_tensor_slices(measure(n, 1))
    ds = ds.shuffle(4096).batch(batch, drop_remainder=True)
    ds = ds.map(lambda s, y: (field_variation(s)[0], y), num_parallel_calls=tf.data.AUTOTUNE)
    return ds.prefetch(tf.data.AUTOTUNE)


def validation_stream(n, batch):
    ds = tf.data.Dataset.from_tensor_slices(measure(n, 2)).batch(batch)
    ds = ds.map(lambda s, y: (smooth_and_scale(s), y), num_parallel_calls=tf.data.AUTOTUNE)
    return ds.cache().prefetch(tf.data.AUTOTUNE)


def two_headed():
    inp = keras.Input((BANDS,))
    x = layers.Reshape((BANDS, 1))(inp)
    for width in (32, 64, 128):
        x = layers.Conv1D(width, 7, strides=2, padding="same", activation="relu")(x)
        x = layers.BatchNormalization()(x)
    x = layers.GlobalAveragePooling1D()(x)
    x = layers.Dense(128, activation="relu")(x)
    return keras.Model(inp, {
        "species": layers.Dense(SPECIES, name="species")(x),
        "nitrogen": layers.Dense(1, name="nitrogen")(x),
    })


if __name__ == "__main__":
    model = two_headed()
    model.compile(
        optimizer=keras.optimizers.Adam(1e-3),
        loss={
            "species": keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            "nitrogen": "huber",
        },
        loss_weights={"species": 1.0, "nitrogen": 0.5},
        metrics={"species": ["accuracy"], "nitrogen": ["mae"]},
    )
    model.fit(
        training_stream(40_000, 256),
        validation_data=validation_stream(2_000, 500),
        epochs=50,
        verbose=2,
    )
    model.save("leaf.keras")
