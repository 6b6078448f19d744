"""Runoff forecast for gauged rivers: an MLP-mixer over rolling windows of one long table."""
import numpy as np
import tensorflow as tf
import keras
from keras import layers

PAST, AHEAD, GAUGES, BATCH = 96, 12, 64, 64


def table(hours=20_000, seed=21):
    rng = np.random.default_rng(seed)
    rain = rng.gamma(0.3, 2.0, (hours, GAUGES))
    kernel = np.exp(-np.arange(200) / 40.0)
    flow = np.stack([np.convolve(rain[:, g], kernel)[:hours] for g in range(GAUGES)], 1)
    return ((flow - flow.mean(0)) / flow.std(0)).astype("float32")


class Windows:
    """Random windows, cut a batch at a time out of a strided view."""

    def __init__(self, flow, steps):
        view = np.lib.stride_tricks.sliding_window_view(flow, PAST + AHEAD, axis=0)
        self.view, self.steps = view.transpose(0, 2, 1), steps
        self.rng = np.random.default_rng(0)

    def __iter__(self):
        for _ in range(self.steps):
            w = self.view[self.rng.integers(0, len(self.view), BATCH)]
            yield w[:, :PAST], w[:, PAST:]


def mixer(depth=4, width=320):
    inp = keras.Input((PAST, GAUGES))
    h = inp
    for _ in range(depth):
        t = layers.LayerNormalization()(h)
        t = layers.Permute((2, 1))(t)
        t = layers.Dense(PAST)(layers.Dense(width, activation="relu")(t))
        h = layers.Add()([h, layers.Permute((2, 1))(t)])
        c = layers.LayerNormalization()(h)
        c = layers.Dense(GAUGES)(layers.Dense(width, activation="relu")(c))
        h = layers.Add()([h, c])
    h = layers.Permute((2, 1))(h)
    return keras.Model(inp, layers.Permute((2, 1))(layers.Dense(AHEAD)(h)))


windows = Windows(table(), steps=75)
spec = (tf.TensorSpec((BATCH, PAST, GAUGES)), tf.TensorSpec((BATCH, AHEAD, GAUGES)))
data = tf.data.Dataset.from_generator(lambda: iter(windows), output_signature=spec).prefetch(2)
model, opt = mixer(), keras.optimizers.Adam(1e-3)


@tf.function(reduce_retracing=True)
def train_step(past, future):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(past, training=True) - future))
    opt.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    return loss


for i, (past, future) in enumerate(data):
    loss = train_step(past, future)
    if i % 25 == 24:
        print(f"{i + 1}: mse {float(loss):.4f}")
