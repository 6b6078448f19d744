"""Instance discrimination (Wu et al. 2018) on survey cutouts, non-parametric softmax over all objects."""
import argparse
import os
import time

import h5py
import keras
import numpy as np
import tensorflow as tf
from keras import layers

FEATURES = 128
TAU = 0.1
KEEP = 0.5


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--cutouts", default="/scratch/survey/cutouts_64px.h5")
    p.add_argument("--out", default="/scratch/runs/galaxy_views")
    p.add_argument("--batch", type=int, default=256)
    p.add_argument("--epochs", type=int, default=100)
    p.add_argument("--lr", type=float, default=0.06)
    p.add_argument("--log-every", type=int, default=200)
    return p.parse_args()


def cutout_dataset(images, batch):
    n = len(images)
    with tf.device("CPU:0"):
        table = tf.constant(images)
    ds = tf.data.Dataset.range(n).shuffle(n).batch(batch, drop_remainder=True)
    ds = ds.map(lambda i: (tf.gather(table, i), i), num_parallel_calls=tf.data.AUTOTUNE)
    return ds.prefetch(tf.data.AUTOTUNE)


def basic_block(x, ch, stride):
    y = layers.Conv2D(ch, 3, strides=stride, padding="same", use_bias=False)(x)
    y = layers.BatchNormalization()(y)
    y = layers.ReLU()(y)
    y = layers.Conv2D(ch, 3, padding="same", use_bias=False)(y)
    y = layers.BatchNormalization()(y)
    if stride != 1 or x.shape[-1] != ch:
        x = layers.Conv2D(ch, 1, strides=stride, use_bias=False)(x)
        x = layers.BatchNormalization()(x)
    return layers.ReLU()(layers.Add()([x, y]))


def make_encoder(size):
    inp = keras.Input((size, size, 3), dtype="uint8")
    x = layers.Rescaling(1 / 127.5, offset=-1, dtype="float32")(inp)
    x = layers.RandomFlip("horizontal_and_vertical", dtype="float32")(x)
    x = layers.RandomTranslation(0.1, 0.1, fill_mode="reflect", dtype="float32")(x)
    x = layers.Conv2D(64, 3, padding="same", use_bias=False)(x)
    x = layers.BatchNormalization()(x)
    x = layers.ReLU()(x)
    for ch, stride in [(64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1)]:
        x = basic_block(x, ch, stride)
    x = layers.GlobalAveragePooling2D()(x)
    x = layers.Dense(FEATURES, dtype="float32")(x)
    out = layers.UnitNormalization(dtype="float32")(x)
    return keras.Model(inp, out, name="encoder")


def unit_rows(rng, n, dim):
    v = rng.standard_normal((n, dim)).astype("float32")
    return v / np.linalg.norm(v, axis=1, keepdims=True)


def main():
    args = get_args()
    os.makedirs(args.out, exist_ok=True)
    keras.utils.set_random_seed(8)
    keras.mixed_precision.set_global_policy("mixed_bfloat16")

    with h5py.File(args.cutouts, "r") as f:
        images = f["rgb"][:]                      # (812_000, 64, 64, 3) uint8
    n = len(images)
    ds = cutout_dataset(images, args.batch)
    del images

    encoder = make_encoder(64)
    steps = n // args.batch
    schedule = keras.optimizers.schedules.CosineDecay(args.lr, steps * args.epochs)
    optimizer = keras.optimizers.SGD(schedule, momentum=0.9, nesterov=True)
    memory = unit_rows(np.random.default_rng(8), n, FEATURES)
    mean_loss = keras.metrics.Mean()

    @tf.function
    def train_step(x, rows, memory):
        with tf.GradientTape() as tape:
            z = encoder(x, training=True)
            logits = tf.matmul(z, memory, transpose_b=True) / TAU
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels=rows, logits=logits))
        grads = tape.gradient(loss, encoder.trainable_variables)
        optimizer.apply_gradients(zip(grads, encoder.trainable_variables))
        mean_loss.update_state(loss)
        return z

    writer = tf.summary.create_file_writer(args.out)
    step = 0
    for epoch in range(args.epochs):
        start = time.time()
        for x, rows in ds:
            z = train_step(x, rows, memory)
            i = rows.numpy()
            mixed = KEEP * memory[i] + (1 - KEEP) * z.numpy()
            memory[i] = mixed / np.linalg.norm(mixed, axis=1, keepdims=True)
            step += 1
            if step % args.log_every == 0:
                with writer.as_default(step=step):
                    tf.summary.scalar("loss", mean_loss.result())
                mean_loss.reset_state()
        print(f"epoch {epoch:3d} done, {n / (time.time() - start):,.0f} cutouts/s", flush=True)
        if epoch % 10 == 9:
            encoder.save(os.path.join(args.out, f"encoder_{epoch + 1:03d}.keras"))

    np.save(os.path.join(args.out, "features.npy"), memory)
    writer.close()


if __name__ == "__main__":
    main()
