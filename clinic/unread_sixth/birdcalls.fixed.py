# coding: utf-8
# Dawn chorus classifier, field season 2 (22 species, 5 s clips cut with Audacity)

import glob
import os

import numpy as np
import tensorflow as tf
from sklearn.model_selection import train_test_split
from tensorflow.keras import layers

ROOT = os.environ.get("CLIPS", "../data/clips_5s")
SR = 22050
CLIP = 5 * SR
N_MELS = 64
EPOCHS = 80
BATCH = 64
AUTOTUNE = tf.data.AUTOTUNE

MEL = tf.signal.linear_to_mel_weight_matrix(
    num_mel_bins=N_MELS, num_spectrogram_bins=1025, sample_rate=SR,
    lower_edge_hertz=300.0, upper_edge_hertz=10500.0)


# ## Files

species = sorted(d for d in os.listdir(ROOT) if os.path.isdir(os.path.join(ROOT, d)))
files, labels = [], []
for k, sp in enumerate(species):
    found = glob.glob(os.path.join(ROOT, sp, "*.wav"))
    files += found
    labels += [k] * len(found)
print(len(files), "clips,", len(species), "species")   # 3412 clips, 22 species

tr_f, va_f, tr_y, va_y = train_test_split(files, labels, test_size=0.2,
                                          stratify=labels, random_state=7)


# ## Spectrograms

def logmel(path, y):
    raw = tf.io.read_file(path)
    wav, _ = tf.audio.decode_wav(raw, desired_channels=1, desired_samples=CLIP)
    wav = tf.squeeze(wav, -1)
    wav = wav - tf.reduce_mean(wav)
    wav = wav / (tf.reduce_max(tf.abs(wav)) + 1e-6)
    spec = tf.abs(tf.signal.stft(wav, frame_length=2048, frame_step=256, fft_length=2048))
    mel = tf.matmul(tf.square(spec), MEL)
    lm = tf.math.log(mel + 1e-6)
    lm = (lm - tf.reduce_mean(lm)) / (tf.math.reduce_std(lm) + 1e-6)
    lm = tf.ensure_shape(lm, [423, N_MELS])
    return lm[..., tf.newaxis], y


train = tf.data.Dataset.from_tensor_slices((tr_f, tr_y))
train = train.map(logmel, num_parallel_calls=AUTOTUNE)
train = train.cache()
train = train.shuffle(512)
train = train.batch(BATCH)
train = train.prefetch(AUTOTUNE)

valid = tf.data.Dataset.from_tensor_slices((va_f, va_y))
valid = valid.map(logmel, num_parallel_calls=AUTOTUNE)
valid = valid.cache()
valid = valid.batch(BATCH)
valid = valid.prefetch(AUTOTUNE)


# ## Model

def block(x, f):
    x = layers.Conv2D(f, 3, padding="same", use_bias=False)(x)
    x = layers.BatchNormalization()(x)
    x = layers.ReLU()(x)
    return layers.MaxPooling2D(2)(x)


inp = layers.Input((423, N_MELS, 1))
x = inp
for f in (16, 32, 64, 128):
    x = block(x, f)
x = layers.GlobalAveragePooling2D()(x)
x = layers.Dropout(0.3)(x)
out = layers.Dense(len(species), activation="softmax")(x)
model = tf.keras.Model(inp, out)

model.compile(optimizer=tf.keras.optimizers.Adam(1e-3),
              loss="sparse_categorical_crossentropy", metrics=["accuracy"])

hist = model.fit(train, validation_data=valid, epochs=EPOCHS, verbose=2,
                 callbacks=[tf.keras.callbacks.ReduceLROnPlateau(patience=6, factor=0.5)])

# ## Confusion

pred = model.predict(valid).argmax(1)
cm = tf.math.confusion_matrix(va_y, pred).numpy()
for k, sp in enumerate(species):
    print(f"{sp:28s} recall {cm[k, k] / max(1, cm[k].sum()):.2f}")
np.savetxt("confusion_s2.csv", cm, fmt="%d", delimiter=",")
model.save("dawn_s2.keras")
