# Speaker embedding from log-mel frames: pipeline with on-line noise, LSTM-free.
import keras
import numpy as np
import tensorflow as tf

SPEAKERS, FRAMES, MELS = 12, 160, 64
keras.utils.set_random_seed(33)
rng = np.random.default_rng(33)
who = rng.integers(0, SPEAKERS, 1280)
means = rng.normal(0, 1, (SPEAKERS, 1, MELS))
frames = (means[who] * 0.3 + rng.normal(0, 1, (1280, FRAMES, MELS))).astype("float32")


@tf.function
def noisy(x, y):
    return x + tf.random.normal(tf.shape(x), stddev=0.1), y


ds = (
    tf.data.Dataset.from_tensor_slices((frames, who))
    .shuffle(1280)
    .batch(32, drop_remainder=True)
    .map(noisy, num_parallel_calls=tf.data.AUTOTUNE)
    .prefetch(tf.data.AUTOTUNE)
)


def tdnn(x, width, dilation):
    x = keras.layers.Conv1D(width, 5, dilation_rate=dilation, padding="same", activation="relu")(x)
    return keras.layers.BatchNormalization()(x)


inp = keras.Input((FRAMES, MELS))
h = tdnn(inp, 192, 1)
h = tdnn(h, 192, 2)
h = tdnn(h, 192, 3)
h = keras.layers.Conv1D(256, 1, activation="relu")(h)
pooled = keras.layers.Concatenate()(
    [keras.layers.GlobalAveragePooling1D()(h), keras.layers.GlobalMaxPooling1D()(h)]
)
out = keras.layers.Dense(SPEAKERS)(keras.layers.Dense(128, activation="relu")(pooled))
model = keras.Model(inp, out)
model.compile(
    optimizer=keras.optimizers.Adam(5e-4),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
h = model.fit(ds, epochs=2, verbose=2)
print("loss", h.history["loss"][-1])
