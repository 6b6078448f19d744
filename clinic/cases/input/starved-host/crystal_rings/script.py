"""Regress lattice spacing from photon-counting powder diffraction, with random dose."""
import argparse
import os
import time
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import numpy as np
import tensorflow as tf
import keras


SIDE = 48


def photon_events(n, hits, seed):
    """Each recording is a list of pixel numbers, one per detected photon."""
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[:SIDE, :SIDE] - SIDE / 2
    rad = np.hypot(xx, yy).ravel()
    spacing = rng.uniform(4, 10, n).astype("float32")
    events = np.empty((n, hits), "int32")
    for i, s in enumerate(spacing):
        p = np.exp(-((rad % s) ** 2) / 2) + 0.5 * np.exp(-rad / 15) + 0.05
        events[i] = np.repeat(np.arange(rad.size), rng.multinomial(hits, p / p.sum()))
    return events, spacing


def thin(events, spacing):
    dose = tf.random.uniform((), 0.3, 0.9)
    kept = tf.random.shuffle(events)[:tf.cast(dose * tf.cast(tf.size(events), tf.float32), tf.int32)]
    counts = tf.scatter_nd(kept[:, None], tf.ones_like(kept), (SIDE * SIDE,))
    img = tf.sqrt(tf.cast(counts, tf.float32)) / 6.0
    return tf.reshape(img, (SIDE, SIDE, 1)), spacing / 10.0


def pipeline(events, spacing, batch, workers):
    ds = tf.data.Dataset.from_tensor_slices((events, spacing)).shuffle(len(events))
    ds = ds.map(thin, num_parallel_calls=4).batch(batch, drop_remainder=True)
    options = tf.data.Options()
    options.threading.private_threadpool_size = workers
    options.deterministic = False
    return ds.with_options(options).prefetch(4)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--frames", type=int, default=160)
    p.add_argument("--hits", type=int, default=120000)
    p.add_argument("--epochs", type=int, default=10)
    p.add_argument("--batch", type=int, default=16)
    p.add_argument("--workers", type=int, default=1)
    a = p.parse_args()
    ds = pipeline(*photon_events(a.frames, a.hits, 0), a.batch, a.workers)
    net = keras.Sequential([keras.Input((48, 48, 1)), keras.layers.Conv2D(8, 5, strides=3, activation="relu"),
                            keras.layers.Conv2D(16, 3, strides=2, activation="relu"), keras.layers.Flatten(),
                            keras.layers.Dense(32, activation="relu"), keras.layers.Dense(1)])
    opt = keras.optimizers.Adam(1e-3)
    opt.build(net.trainable_variables)

    @tf.function
    def train_step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((net(x, training=True)[:, 0] - y) ** 2)
        opt.apply_gradients(zip(tape.gradient(loss, net.trainable_variables), net.trainable_variables))
        return loss

    seen, t0 = 0, time.perf_counter()
    for e in range(a.epochs):
        losses = [train_step(x, y) for x, y in ds]
        seen += len(losses) * a.batch
        print("epoch", e, "mse %.4f" % float(tf.reduce_mean(losses)))
    print("WORK", seen)
    print("TRAIN_SECONDS %.3f" % (time.perf_counter() - t0))


if __name__ == "__main__":
    main()
