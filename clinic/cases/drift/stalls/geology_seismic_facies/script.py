"""Seismic facies classification on patches drawn from several survey blocks."""
import os
import tempfile
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

PATCH = 40
FACIES = 6


def write_blocks(folder, n_blocks=3, inlines=96, crosslines=96, samples=384):
    rng = np.random.default_rng(17)
    t = np.arange(-24, 25) / 250.0
    ricker = (1 - 2 * (np.pi * 25 * t) ** 2) * np.exp(-(np.pi * 25 * t) ** 2)
    wave = np.fft.rfft(ricker, samples)
    paths = []
    for b in range(n_blocks):
        layers_at = np.sort(rng.integers(0, samples, FACIES - 1))
        dip = rng.normal(0, 0.3, 2)
        shift = (dip[0] * np.arange(inlines)[:, None] + dip[1] * np.arange(crosslines)[None]).astype(int)
        depth = np.arange(samples)[None, None] + shift[..., None]
        facies = np.searchsorted(layers_at, depth.ravel()).reshape(depth.shape).astype("uint8")
        refl = rng.standard_normal(depth.shape, dtype="float32") * (0.3 + 0.2 * facies)
        amp = np.fft.irfft(np.fft.rfft(refl, axis=-1) * wave, samples, axis=-1).astype("float32")
        path = os.path.join(folder, f"block_{b:02d}.npz")
        np.savez(path, amplitude=amp, facies=facies)
        paths.append(path)
    return paths


def trace_attributes(amp):
    """Amplitude, envelope and instantaneous frequency from the analytic trace."""
    n = amp.shape[-1]
    gain = np.zeros(n)
    gain[0] = gain[n // 2] = 1
    gain[1:n // 2] = 2
    analytic = np.fft.ifft(np.fft.fft(amp, axis=-1) * gain, axis=-1)
    envelope = np.abs(analytic)
    phase = np.unwrap(np.angle(analytic), axis=-1)
    frequency = np.gradient(phase, axis=-1)
    cube = np.stack([amp, envelope, frequency], axis=-1).astype("float32")
    cube -= cube.mean(axis=(0, 1, 2))
    cube /= cube.std(axis=(0, 1, 2)) + 1e-6
    return cube


class SurveySampler:
    def __init__(self, paths, batch_size=16, draws_per_block=30, seed=0):
        self.paths = paths
        self.batch_size = batch_size
        self.draws_per_block = draws_per_block
        self.rng = np.random.default_rng(seed)
        self.draws = 0
        self.cube = self.facies = None

    def load(self, path):
        with np.load(path) as f:
            return trace_attributes(f["amplitude"]), f["facies"]

    def next_batch(self):
        if self.draws % self.draws_per_block == 0:
            which = (self.draws // self.draws_per_block) % len(self.paths)
            self.cube, self.facies = self.load(self.paths[which])
        self.draws += 1
        n_il, n_xl, n_t = self.facies.shape
        il = self.rng.integers(0, n_il, self.batch_size)
        xl = self.rng.integers(0, n_xl - PATCH, self.batch_size)
        ts = self.rng.integers(0, n_t - PATCH, self.batch_size)
        x = np.stack([self.cube[i, j:j + PATCH, k:k + PATCH] for i, j, k in zip(il, xl, ts)])
        y = self.facies[il, xl + PATCH // 2, ts + PATCH // 2].astype("int32")
        return x, y


def build_net():
    inp = keras.Input((PATCH, PATCH, 3))
    h = inp
    for filters in (16, 32, 64):
        h = layers.Conv2D(filters, 3, padding="same", activation="relu")(h)
        h = layers.MaxPooling2D()(h)
    h = layers.Flatten()(h)
    h = layers.Dense(64, activation="relu")(h)
    return keras.Model(inp, layers.Dense(FACIES)(h))


def main(n_steps=360):
    keras.utils.set_random_seed(8)
    with tempfile.TemporaryDirectory() as folder:
        sampler = SurveySampler(write_blocks(folder))
        net = build_net()
        opt = keras.optimizers.SGD(0.02, momentum=0.9)
        opt.build(net.trainable_variables)
        loss_obj = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        mean_loss = keras.metrics.Mean()

        @tf.function
        def step_fn(x, y):
            with tf.GradientTape() as tape:
                loss = loss_obj(y, net(x, training=True))
            opt.apply_gradients(zip(tape.gradient(loss, net.trainable_variables), net.trainable_variables))
            mean_loss.update_state(loss)

        tic = time.perf_counter()
        for step in range(1, n_steps + 1):
            x, y = sampler.next_batch()
            step_fn(tf.convert_to_tensor(x), tf.convert_to_tensor(y))
            if step % 120 == 0:
                print("step", step, "loss", float(mean_loss.result()))
                mean_loss.reset_state()
        toc = time.perf_counter()

    print("WORK", n_steps)
    print("TRAIN_SECONDS %.3f" % (toc - tic))


main()
