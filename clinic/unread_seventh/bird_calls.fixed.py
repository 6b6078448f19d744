"""Bird call classifier on log-mel patches (own xeno-canto subset, 48 species, about 6000 clips).

python bird_calls.py --root /data/xc48 --epochs 60
"""
import argparse
import json
import math
import pathlib
import time

import keras
import numpy as np
import pandas as pd
import tensorflow as tf
from keras import layers

RATE = 32_000
SECONDS = 5
FRAMES = 496
MELS = 128
MEL_MATRIX = tf.signal.linear_to_mel_weight_matrix(MELS, 513, RATE, 60.0, 15_000.0)


def log_mel(path, label):
    wav, _ = tf.audio.decode_wav(tf.io.read_file(path), desired_channels=1, desired_samples=RATE * SECONDS)
    spec = tf.signal.stft(tf.squeeze(wav, -1), frame_length=1024, frame_step=320, fft_length=1024)
    mel = tf.matmul(tf.square(tf.abs(spec[:FRAMES])), MEL_MATRIX)
    mel = tf.math.log(mel + 1e-6)
    mel = (mel - tf.reduce_mean(mel)) / (tf.math.reduce_std(mel) + 1e-5)
    return tf.cast(tf.ensure_shape(mel, (FRAMES, MELS)), tf.float16)[..., None], label


def load_split(frame, root, batch_size, training=False, seed=0):
    paths = [str(root / p) for p in frame["file"]]
    labels = frame["species_id"].to_numpy(np.int32)
    ds = tf.data.Dataset.from_tensor_slices((paths, labels))
    ds = ds.map(log_mel, num_parallel_calls=tf.data.AUTOTUNE).cache()
    if training:
        ds = ds.shuffle(2048, seed=seed)
    return ds.batch(batch_size, drop_remainder=training).prefetch(tf.data.AUTOTUNE)


def block(x, width, stride=1):
    skip = x
    y = layers.Conv2D(width, 3, strides=stride, padding="same", use_bias=False)(x)
    y = layers.ReLU()(layers.BatchNormalization()(y))
    y = layers.Conv2D(width, 3, padding="same", use_bias=False)(y)
    y = layers.BatchNormalization()(y)
    if stride != 1 or skip.shape[-1] != width:
        skip = layers.Conv2D(width, 1, strides=stride, use_bias=False)(skip)
    return layers.ReLU()(layers.Add()([y, skip]))


def build_model(classes):
    inputs = keras.Input((FRAMES, MELS, 1))
    x = layers.Conv2D(32, 5, strides=2, padding="same")(inputs)
    for width, stride in ((32, 1), (64, 2), (128, 2), (128, 1)):
        x = block(x, width, stride)
    x = layers.GlobalAveragePooling2D()(x)
    x = layers.Dropout(0.3)(x)
    return keras.Model(inputs, layers.Dense(classes, dtype="float32")(x))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=pathlib.Path, required=True)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("runs/xc48"))
    args = parser.parse_args()

    keras.utils.set_random_seed(args.seed)
    keras.mixed_precision.set_global_policy("mixed_bfloat16")
    args.out.mkdir(parents=True, exist_ok=True)

    meta = pd.read_csv(args.root / "clips.csv")
    train_df, val_df = meta[meta.fold != 0], meta[meta.fold == 0]
    steps = len(train_df) // args.batch

    model = build_model(meta.species_id.nunique())
    schedule = keras.optimizers.schedules.CosineDecay(2e-3, steps * args.epochs)
    optimizer = keras.optimizers.AdamW(schedule, weight_decay=1e-4)
    loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    train_loss = keras.metrics.Mean()
    val_acc = keras.metrics.SparseCategoricalAccuracy()

    @tf.function
    def train_step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_fn(y, model(x, training=True))
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))
        train_loss.update_state(loss)

    @tf.function(reduce_retracing=True)
    def eval_step(x, y):
        val_acc.update_state(y, model(x, training=False))

    train_ds = load_split(train_df, args.root, args.batch, training=True, seed=args.seed)
    val_ds = load_split(val_df, args.root, args.batch)
    history, best = [], -math.inf
    for epoch in range(args.epochs):
        start = time.perf_counter()
        train_loss.reset_state()
        val_acc.reset_state()

        for x, y in train_ds:
            train_step(x, y)
        for x, y in val_ds:
            eval_step(x, y)

        row = {"epoch": epoch, "loss": float(train_loss.result()), "acc": float(val_acc.result())}
        row["seconds"] = time.perf_counter() - start
        history.append(row)
        print(" ".join(f"{k}={v:.4g}" for k, v in row.items()))
        if row["acc"] > best:
            best = row["acc"]
            model.save_weights(args.out / "best.weights.h5")

    (args.out / "history.json").write_text(json.dumps(history, indent=1))


if __name__ == "__main__":
    main()
