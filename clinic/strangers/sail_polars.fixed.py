"""Boat speed from wind angle, wind speed and sail trim; logs are windows over a race track."""
import numpy as np
import tensorflow as tf
from tensorflow import keras

WINDOW = 64
FEATURES = 6
BATCH = 64
EPOCHS = 7


def race_log(minutes=60000, seed=8):
    rng = np.random.default_rng(seed)
    wind = 6 + np.cumsum(rng.normal(0, 0.02, minutes))
    angle = 90 + 40 * np.sin(np.arange(minutes) / 300) + rng.normal(0, 3, minutes)
    trim = rng.uniform(-1, 1, (minutes, 4))
    log = np.column_stack([wind, angle, trim]).astype("float32")
    speed = 0.6 * wind * np.sin(np.radians(angle)) + 0.3 * trim[:, 0]
    return log, speed.astype("float32")


def track_windows(log, speed, starts):
    log, speed = tf.constant(log), tf.constant(speed)
    scale = tf.constant([1 / 10.0, 1 / 180.0, 1, 1, 1, 1], tf.float32)

    def cut(s):
        window = tf.gather(log, s[:, None] + tf.range(WINDOW, dtype=s.dtype)) * scale
        return window, tf.gather(speed, s + WINDOW)

    ds = tf.data.Dataset.from_tensor_slices(starts).batch(BATCH, drop_remainder=True)
    return ds.map(cut, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


def make_model():
    inp = keras.Input((WINDOW, FEATURES))
    h = keras.layers.Conv1D(32, 5, strides=2, activation="relu")(inp)
    h = keras.layers.Conv1D(32, 5, strides=2, activation="relu")(h)
    h = keras.layers.GlobalAveragePooling1D()(h)
    return keras.Model(inp, keras.layers.Dense(1)(h))


log, speed = race_log()
starts = np.random.default_rng(1).permutation(len(log) - WINDOW - 1)[:BATCH * 70]
data = track_windows(log, speed, starts)

model = make_model()
model.compile("adam", "mse")
model.fit(data, epochs=EPOCHS, shuffle=False, verbose=2)
print("speed error (mse):", model.evaluate(data, verbose=0))
