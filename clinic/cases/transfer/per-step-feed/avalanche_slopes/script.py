"""Avalanche release points: a small CNN looks at 15x15 windows of the terrain rasters around each point."""
import argparse
import time

import numpy as np
import tensorflow as tf
from tensorflow.keras import Sequential, layers, optimizers

WINDOW = 15
LAYERS = 6          # height, slope, aspect (2), curvature, snow load


def rasters(size, rng):
    y, x = np.mgrid[0:size, 0:size] / size
    height = sum(np.sin(k * 3 * x + rng.uniform(0, 6)) * np.cos(k * 2 * y + rng.uniform(0, 6)) / k for k in range(1, 9))
    gy, gx = np.gradient(height * size / 40)
    slope = np.hypot(gx, gy)
    aspect = np.arctan2(gy, gx)
    curve = np.gradient(gy, axis=0) + np.gradient(gx, axis=1)
    snow = np.clip(height, 0, None) + 0.1 * rng.normal(size=height.shape)
    stack = np.stack([height, slope, np.sin(aspect), np.cos(aspect), curve, snow], axis=-1)
    return (stack - stack.mean((0, 1))) / stack.std((0, 1))


def points(terrain, n, rng):
    edge = WINDOW // 2
    rc = rng.integers(edge, terrain.shape[0] - edge - 1, size=(n, 2)).astype(np.int32)
    here = terrain[rc[:, 0], rc[:, 1]]
    risk = 1.2 * here[:, 1] + 0.8 * here[:, 5] - 0.5 * here[:, 4]
    return rc, (risk + 0.4 * rng.normal(size=n) > 0.6).astype(np.float32)


class SlopeTrainer:
    def __init__(self, lr):
        self.cnn = Sequential([
            layers.Input((WINDOW, WINDOW, LAYERS)),
            layers.Conv2D(24, 3, activation="relu"),
            layers.Conv2D(32, 3, strides=2, activation="relu"),
            layers.Flatten(),
            layers.Dense(64, activation="relu"),
            layers.Dense(1),
        ])
        self.opt = optimizers.Adam(lr)
        offset = np.arange(WINDOW) - WINDOW // 2
        self.offsets = tf.constant(np.stack(np.meshgrid(offset, offset, indexing="ij"), -1), tf.int32)

    @tf.function
    def step(self, terrain, rc, label):
        windows = tf.gather_nd(terrain, rc[:, None, None, :] + self.offsets[None])
        with tf.GradientTape() as tape:
            logit = self.cnn(windows, training=True)[:, 0]
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(label, logit))
        grads = tape.gradient(loss, self.cnn.trainable_variables)
        self.opt.apply_gradients(zip(grads, self.cnn.trainable_variables))
        return loss


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--size", type=int, default=1400)
    ap.add_argument("--points", type=int, default=9600)
    ap.add_argument("--batch", type=int, default=96)
    ap.add_argument("--epochs", type=int, default=2)
    args = ap.parse_args()

    rng = np.random.default_rng(8)
    terrain = rasters(args.size, rng)
    rc, label = points(terrain, args.points, rng)
    ds = tf.data.Dataset.from_tensor_slices((rc, label)).shuffle(args.points).batch(args.batch).prefetch(4)
    trainer = SlopeTrainer(1e-3)

    start = time.time()
    for epoch in range(args.epochs):
        losses = []
        for where, released in ds:
            grid = tf.convert_to_tensor(terrain, dtype=tf.float32)
            losses.append(trainer.step(grid, where, released))
        print("epoch %d  loss %.4f" % (epoch, tf.reduce_mean(losses)))
    print("WORK", args.points * args.epochs)
    print("TRAIN_SECONDS %.3f" % (time.time() - start))


if __name__ == "__main__":
    main()
