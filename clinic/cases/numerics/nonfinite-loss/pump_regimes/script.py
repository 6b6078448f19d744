# %% [markdown]
# Which of three regimes is the pump in? Eight vibration channels, windows of 64 samples.
# We stop as soon as the held-out accuracy is good enough for the plant.

# %%
import numpy as np
import tensorflow as tf
import keras
from keras import layers, ops

keras.utils.set_random_seed(8)
rng = np.random.default_rng(8)
N, CHANNELS, WINDOW, STRIDE = 60_000, 8, 64, 6
GOOD_ENOUGH, MAX_EPOCHS = 0.88, 14

# %% the recording
regime = np.repeat(rng.integers(0, 3, N // 1000), 1000)
omega = 2 * np.pi * np.array([0.03, 0.08, 0.17])[regime]
phase = np.cumsum(omega)[:, None] + rng.uniform(0, 2 * np.pi, CHANNELS)
gain = rng.uniform(0.5, 3.0, CHANNELS)
signal = gain * (np.sin(phase) + 0.4 * rng.standard_normal((N, CHANNELS)))
signal += rng.uniform(-2, 2, CHANNELS)
# channel 3 was unplugged for part of the day
signal[27_000:30_000, 3] = 0.0
signal = signal.astype("float32")

# %% windows, in time order; the last 15 % are held out
windows = np.lib.stride_tricks.sliding_window_view(signal, WINDOW, axis=0)[::STRIDE]
windows = np.ascontiguousarray(windows.transpose(0, 2, 1))
labels = regime[WINDOW - 1::STRIDE][: len(windows)].astype("int32")
cut = int(0.85 * len(windows))


def pipeline(x, y, train):
    ds = tf.data.Dataset.from_tensor_slices((x, y))
    if train:
        ds = ds.shuffle(1500, seed=8)
    return ds.batch(64).prefetch(tf.data.AUTOTUNE)


train = pipeline(windows[:cut], labels[:cut], True)
held_out = pipeline(windows[cut:], labels[cut:], False)


# %% the network
class WindowNorm(layers.Layer):
    """Takes each channel's level and gain out of the window."""

    def call(self, x):
        level = ops.mean(x, axis=1, keepdims=True)
        spread = ops.std(x, axis=1, keepdims=True)
        return (x - level) / spread


inp = keras.Input((WINDOW, CHANNELS))
h = WindowNorm()(inp)
h = layers.Conv1D(48, 9, padding="same", activation="relu")(h)
h = layers.Conv1D(96, 5, strides=2, padding="same", activation="relu")(h)
h = layers.Conv1D(96, 5, strides=2, padding="same", activation="relu")(h)
h = layers.GlobalAveragePooling1D()(h)
out = layers.Dense(3)(h)
model = keras.Model(inp, out)
model.compile(
    optimizer=keras.optimizers.Adam(1e-3),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)


class GoodEnough(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        if logs["val_accuracy"] >= GOOD_ENOUGH:
            print("good enough at epoch", epoch + 1)
            self.model.stop_training = True


# %%
history = model.fit(train, validation_data=held_out, epochs=MAX_EPOCHS, callbacks=[GoodEnough()], verbose=2)
print("epochs run:", len(history.history["val_accuracy"]))
print("best held-out accuracy: %.3f" % max(history.history["val_accuracy"]))
