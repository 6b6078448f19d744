"""Nowcasting of hail from radar: ten past frames in, the next one out (seminar project)."""
import time

import numpy as np
import tensorflow as tf

FRAMES, SIZE = 10, 64
SEQUENCES = 112
BATCH = 8
EPOCHS = 3


def storms(n, seed=0):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[0:SIZE, 0:SIZE].astype("float32")
    out = np.zeros((n, SIZE, SIZE, FRAMES + 1), dtype="float32")
    for i in range(n):
        x, y = rng.uniform(15, 50, 2)
        vx, vy = rng.uniform(-1.5, 1.5, 2)
        width = rng.uniform(4, 9)
        for t in range(FRAMES + 1):
            cell = np.exp(-((xx - x - vx * t) ** 2 + (yy - y - vy * t) ** 2) / (2 * width**2))
            out[i, :, :, t] = 1e4 * cell
    return out


def reflectivity(z):
    return (np.clip(10.0 * np.log10(z + 1.0), 0.0, 60.0) / 60.0).astype("float32")


def to_example(z):
    dbz = tf.numpy_function(reflectivity, [z], tf.float32)
    dbz = tf.ensure_shape(dbz, (BATCH, SIZE, SIZE, FRAMES + 1))
    return dbz[..., :FRAMES], dbz[..., FRAMES:]


def pipeline(data):
    return (
        tf.data.Dataset.from_tensor_slices(data)
        .shuffle(len(data), seed=0)
        .batch(BATCH, drop_remainder=True)
        .map(to_example, num_parallel_calls=tf.data.AUTOTUNE)
        .prefetch(tf.data.AUTOTUNE)
    )


def conv(filters):
    return tf.keras.layers.Conv2D(filters, 3, padding="same", activation="relu")


class Nowcaster(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.encoder = [conv(48), conv(64)]
        self.core = [conv(64), conv(64)]
        self.head = tf.keras.layers.Conv2D(1, 3, padding="same")

    def call(self, frames):
        h = frames
        for layer in self.encoder + self.core:
            h = layer(h)
        return frames[..., -1:] + self.head(h)


class Report(tf.keras.callbacks.Callback):
    def __init__(self, sample):
        super().__init__()
        self.sample = sample

    def on_epoch_end(self, epoch, logs=None):
        guess = self.model(self.sample[0], training=False).numpy()
        hit = np.mean((guess > 0.6) == (self.sample[1].numpy() > 0.6))
        print("  epoch %d: agreement above 36 dBZ %.3f" % (epoch + 1, hit))


tf.keras.utils.set_random_seed(0)
train = pipeline(storms(SEQUENCES))
probe = next(iter(pipeline(storms(BATCH, seed=1))))

net = Nowcaster()
net.compile(optimizer=tf.keras.optimizers.Adam(1e-3), loss="mse")

t0 = time.time()
net.fit(train, epochs=EPOCHS, callbacks=[Report(probe)], verbose=2)
t1 = time.time()

print("WORK", EPOCHS * (SEQUENCES // BATCH) * BATCH)
print("TRAIN_SECONDS %.3f" % (t1 - t0))
