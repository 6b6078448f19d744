"""Which notes does the choir sing? A transformer over spectrogram frames (multi-label)."""
import numpy as np
import tensorflow as tf
import keras
from keras import layers

keras.utils.set_random_seed(27)
rng = np.random.default_rng(27)

FRAMES, BINS, NOTES, WIDTH = 48, 64, 24, 96


def recordings(n):
    sung = rng.random((n, NOTES)) < 0.15
    bank = np.abs(rng.normal(size=(NOTES, BINS)))
    spec = sung.astype("float32") @ bank
    frames = spec[:, None] * rng.uniform(0.5, 1, (n, FRAMES, 1)) + 0.3 * rng.normal(size=(n, FRAMES, BINS))
    return frames.astype("float32"), sung.astype("float32")


def encoder_block(h):
    a = layers.MultiHeadAttention(4, WIDTH // 4)(layers.LayerNormalization()(h), layers.LayerNormalization()(h))
    h = layers.Add()([h, a])
    m = layers.Dense(4 * WIDTH, activation="gelu")(layers.LayerNormalization()(h))
    return layers.Add()([h, layers.Dense(WIDTH)(m)])


inp = keras.Input((FRAMES, BINS))
h = layers.Dense(WIDTH)(inp)
h = layers.Add()([h, layers.Embedding(FRAMES, WIDTH)(np.arange(FRAMES)[None])])
for _ in range(2):
    h = encoder_block(h)
model = keras.Model(inp, layers.Dense(NOTES, activation="sigmoid")(layers.GlobalAveragePooling1D()(h)))
model.compile(optimizer=keras.optimizers.AdamW(5e-4), loss="binary_crossentropy",
              metrics=[keras.metrics.BinaryAccuracy()])

x, y = recordings(1920)
ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(1920, seed=1).batch(32).prefetch(2)
model.fit(ds, epochs=2, verbose=2)
