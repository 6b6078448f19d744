"""Purity of a batch from its Raman trace. Traces arrive zlib-compressed from the spectrometer."""
import argparse
import zlib
from functools import reduce

import keras
import numpy as np
import tensorflow as tf

POINTS = 16_384
AUTO = tf.data.AUTOTUNE


def acquire(n, vials=200, seed=17):
    """Two hundred vials, each measured many times."""
    rng = np.random.default_rng(seed)
    axis = np.linspace(0, 1, POINTS, dtype=np.float32)
    purity = rng.uniform(0.5, 1.0, vials).astype(np.float32)
    blobs = []
    for p in purity:
        phase = rng.uniform(0, 6.28)
        trace = p * np.sin(900 * axis + phase) + (1 - p) * np.sin(2300 * axis)
        blobs.append(zlib.compress((2000 * trace).astype("<i2").tobytes(), 1))
    vial = rng.integers(0, vials, n)
    return np.array(blobs, dtype=object)[vial], purity[vial]


def inflate(blob, purity):
    raw = tf.io.decode_compressed(blob, compression_type="ZLIB")
    trace = tf.cast(tf.io.decode_raw(raw, tf.int16), tf.float32)
    return tf.ensure_shape(trace, [POINTS]), purity


def debaseline(trace, purity):
    line = tf.nn.avg_pool1d(trace[None, :, None], 513, 1, "SAME")[0, :, 0]
    trace = trace - line
    return trace / (tf.math.reduce_std(trace) + 1e-3), purity


def sonogram(trace, purity):
    spec = tf.abs(tf.signal.stft(trace, frame_length=512, frame_step=128))
    image = tf.image.resize(tf.math.log1p(spec)[..., None], (64, 64), antialias=True)
    return tf.cast(image, tf.float16), purity


def stage(fn):
    return lambda ds: ds.map(fn, num_parallel_calls=AUTO)


def recipe(training, batch, n):
    """The steps that every split goes through, in order."""
    steps = [lambda ds: ds.cache(), stage(inflate), stage(debaseline), stage(sonogram)]
    if training:
        steps.append(lambda ds: ds.shuffle(n))
    steps += [lambda ds: ds.batch(batch, drop_remainder=training), lambda ds: ds.prefetch(AUTO)]
    return steps


def assemble(blobs, purity, *, training, batch):
    source = tf.data.Dataset.from_tensor_slices((tf.constant(blobs.tolist()), purity))
    return reduce(lambda ds, step: step(ds), recipe(training, batch, min(len(purity), 512)), source)


def regressor():
    layers = keras.layers
    return keras.Sequential([
        keras.Input((64, 64, 1)),
        layers.Conv2D(32, 3, activation="relu"),
        layers.MaxPooling2D(),
        layers.Conv2D(64, 3, activation="relu"),
        layers.MaxPooling2D(),
        layers.Conv2D(64, 3, activation="relu"),
        layers.GlobalAveragePooling2D(),
        layers.Dense(64, activation="relu"),
        layers.Dense(1, activation="sigmoid"),
    ])


if __name__ == "__main__":
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--traces", type=int, default=10_000)
    ap.add_argument("--batch", type=int, default=128)
    ap.add_argument("--epochs", type=int, default=60)
    ap.add_argument("--out", default="raman_purity.keras")
    opt = ap.parse_args()

    blobs, purity = acquire(opt.traces)
    edge = opt.traces * 9 // 10
    train = assemble(blobs[:edge], purity[:edge], training=True, batch=opt.batch)
    check = assemble(blobs[edge:], purity[edge:], training=False, batch=opt.batch)

    model = regressor()
    model.compile(optimizer=keras.optimizers.Adam(1e-3), loss="mse", metrics=["mae"])
    stop = keras.callbacks.EarlyStopping(patience=12, restore_best_weights=True)
    model.fit(train, validation_data=check, epochs=opt.epochs, callbacks=[stop], verbose=2)
    model.save(opt.out)
