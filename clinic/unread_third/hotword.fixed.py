import argparse
import os
import tempfile

import numpy as np
import tensorflow as tf

SR = 16000
WORDS = ["yes", "no", "up", "down", "stop", "go"]


def record_corpus(root, per_word):
    rng = np.random.default_rng(0)
    t = np.arange(SR * 2) / SR
    files, labels = [], []
    for k, w in enumerate(WORDS):
        os.makedirs(os.path.join(root, w))
        for i in range(per_word):
            f0 = 180 + 90 * k + rng.normal() * 10
            wave = 0.4 * np.sin(2 * np.pi * f0 * t) + 0.1 * rng.normal(size=t.size)
            wav = tf.audio.encode_wav(wave[:, None].astype("float32"), SR)
            path = os.path.join(root, w, f"{i:04d}.wav")
            tf.io.write_file(path, wav)
            files.append(path)
            labels.append(k)
    return np.array(files), np.array(labels, np.int32)


MEL = tf.signal.linear_to_mel_weight_matrix(64, 513, SR, 60.0, 7600.0)


def random_clip(wave):
    wave = tf.image.random_crop(wave, [SR])
    gain = tf.random.uniform([], 0.5, 1.5)
    return wave * gain + tf.random.normal([SR], stddev=0.02)


def load_clip(path, label):
    wave, _ = tf.audio.decode_wav(tf.io.read_file(path), desired_channels=1)
    wave = random_clip(tf.squeeze(wave, -1))
    spec = tf.abs(tf.signal.stft(wave, 640, 160, 1024))
    mel = tf.math.log(tf.tensordot(spec, MEL, 1) + 1e-6)
    mel = (mel - tf.reduce_mean(mel)) / (tf.math.reduce_std(mel) + 1e-6)
    mel = tf.ensure_shape(mel[..., None], [97, 64, 1])
    return mel, label


def get_ds(files, labels, batch):
    ds = tf.data.Dataset.from_tensor_slices((files, labels))
    ds = ds.shuffle(len(files), reshuffle_each_iteration=True)
    ds = ds.map(load_clip, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.batch(batch, drop_remainder=True)
    return ds.prefetch(tf.data.AUTOTUNE)


def build_model():
    return tf.keras.Sequential([
        tf.keras.layers.Input((97, 64, 1)),
        tf.keras.layers.Conv2D(32, 5, strides=2, activation="relu"),
        tf.keras.layers.SeparableConv2D(64, 3, activation="relu"),
        tf.keras.layers.MaxPool2D(),
        tf.keras.layers.SeparableConv2D(96, 3, activation="relu"),
        tf.keras.layers.GlobalAveragePooling2D(),
        tf.keras.layers.Dropout(0.3),
        tf.keras.layers.Dense(len(WORDS)),
    ])


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--per-word", type=int, default=500)
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--epochs", type=int, default=12)
    args = p.parse_args()
    with tempfile.TemporaryDirectory() as root:
        files, labels = record_corpus(root, args.per_word)
        model = build_model()
        model.compile(
            optimizer=tf.keras.optimizers.Adam(1e-3),
            loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"])
        model.fit(get_ds(files, labels, args.batch), epochs=args.epochs, verbose=2)


if __name__ == "__main__":
    main()
