"""Which clerk wrote this line?  Strips of a ledger are read column by column by a GRU.
"""
import argparse
import time

import numpy as np
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=5)
parser.add_argument("--batch", type=int, default=16)
args = parser.parse_args()
tf.keras.utils.set_random_seed(10)
CLERKS, HIGH, WIDE = 5, 48, 160


def strips(count=960):
    rng = np.random.default_rng(10)
    clerk = rng.integers(0, CLERKS, count)
    x = np.arange(WIDE)
    middle = HIGH / 2 + 8 * np.sin(x[None] * (0.15 + 0.07 * clerk[:, None]) + rng.uniform(0, 6, (count, 1)))
    y = np.arange(HIGH)[None, :, None]
    ink = np.exp(-((y - middle[:, None]) ** 2) / 6)
    return ink.astype("float32")[..., None], clerk


class Archive:
    """The scans lie on the archive's server; here a stand-in that answers as fast as the real one (11 ms a request)."""

    def __init__(self):
        self.strips, self.clerk = strips()
        self.rng = np.random.default_rng(3)

    def request(self, rows):
        time.sleep(0.011)
        return self.strips[rows], self.clerk[rows]

    def __call__(self):
        order = self.rng.permutation(len(self.clerk))
        for k in range(0, len(order), args.batch):
            yield self.request(order[k:k + args.batch])


def columns(strip, clerk):
    picture = tf.transpose(strip[..., 0], [0, 2, 1])
    return tf.ensure_shape(picture[:, ::3], (None, 54, HIGH)), clerk


def make_dataset():
    signature = (tf.TensorSpec((None, HIGH, WIDE, 1)), tf.TensorSpec((None,), tf.int64))
    ds = tf.data.Dataset.from_generator(Archive(), output_signature=signature).map(columns)
    options = tf.data.Options()
    options.deterministic = True
    options.autotune.enabled = False
    return ds.with_options(options)


net = tf.keras.Sequential([
    tf.keras.Input((54, HIGH)),
    tf.keras.layers.GRU(48, return_sequences=True),
    tf.keras.layers.GRU(32),
    tf.keras.layers.Dense(CLERKS),
])
opt = tf.keras.optimizers.Adam(2e-3)
criterion = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function
def update(lines, clerk):
    with tf.GradientTape() as tape:
        loss = criterion(clerk, net(lines, training=True))
    opt.apply_gradients(zip(tape.gradient(loss, net.trainable_variables), net.trainable_variables))
    return loss


ds = make_dataset()
start = time.time()
running = tf.keras.metrics.Mean()
for epoch in range(args.epochs):
    for lines, clerk in ds:
        running.update_state(update(lines, clerk))
    print("epoch", epoch, "loss %.4f" % float(running.result()))
    running.reset_state()
seconds = time.time() - start
print("WORK", args.epochs * 960)
print("TRAIN_SECONDS %.3f" % seconds)
