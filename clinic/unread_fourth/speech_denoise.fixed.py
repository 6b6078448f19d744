"""Mask-based speech enhancement: mixes speech and cafe noise on the fly."""
import time

import numpy as np
import tensorflow as tf

SR = 16000
SEGMENT = 2 * SR
FRAME, HOP = 512, 128
FRAMES = 1 + (SEGMENT - FRAME) // HOP


def make_corpus(seconds, voiced, seed):
    rng = np.random.default_rng(seed)
    n = seconds * SR
    x = rng.standard_normal(n, dtype=np.float32) * 0.1
    if voiced:
        t = np.arange(n, dtype=np.float32) / SR
        x += 0.4 * np.sin(2 * np.pi * 180 * t) * (np.sin(2 * np.pi * 2.5 * t) > 0)
    return (x.clip(-1, 1) * 32767).astype(np.int16)


class Mixer:
    def __init__(self, speech, noise, workers=8):
        self.speech = tf.constant(speech)
        self.noise = tf.constant(noise)
        self.workers = workers

    @staticmethod
    def _cut(track):
        at = tf.random.uniform([], 0, tf.shape(track)[0] - SEGMENT, tf.int32)
        return tf.cast(track[at:at + SEGMENT], tf.float32) / 32768.0

    def _pair(self, _):
        s, n = self._cut(self.speech), self._cut(self.noise)
        snr = tf.random.uniform([], -5.0, 15.0)
        scale = tf.norm(s) / (tf.norm(n) + 1e-6) * tf.pow(10.0, -snr / 20.0)
        s, n = tf.ensure_shape(s, [SEGMENT]), tf.ensure_shape(n * scale, [SEGMENT])
        clean = tf.abs(tf.signal.stft(s, FRAME, HOP))
        mixed = tf.abs(tf.signal.stft(s + n, FRAME, HOP))
        return mixed, clean

    def segments(self, count):
        options = tf.data.Options()
        options.autotune.enabled = False
        ds = tf.data.Dataset.range(count).with_options(options)
        return ds.map(self._pair, num_parallel_calls=self.workers, deterministic=False)


def finish(ds, batch_size, ahead=4):
    ds = ds.batch(batch_size, drop_remainder=True)
    ds = ds.prefetch(ahead)
    return ds


def mask_net(bins=FRAME // 2 + 1):
    spec = tf.keras.Input((FRAMES, bins))
    x = tf.keras.layers.Lambda(lambda v: tf.math.log1p(10.0 * v))(spec)
    for _ in range(2):
        x = tf.keras.layers.Bidirectional(tf.keras.layers.GRU(256, return_sequences=True))(x)
    mask = tf.keras.layers.Dense(bins, activation="sigmoid")(x)
    return tf.keras.Model(spec, tf.keras.layers.multiply([spec, mask]))


class Trainer:
    def __init__(self, model, lr):
        self.model = model
        self.optimizer = tf.keras.optimizers.Adam(lr, clipnorm=5.0)
        self.running = tf.keras.metrics.Mean()

    @tf.function
    def step(self, mixed, clean):
        with tf.GradientTape() as tape:
            estimate = self.model(mixed, training=True)
            loss = tf.reduce_mean(tf.abs(tf.math.log1p(estimate) - tf.math.log1p(clean)))
        grads = tape.gradient(loss, self.model.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.model.trainable_variables))
        self.running.update_state(loss)

    def epoch(self, batches):
        self.running.reset_state()
        for mixed, clean in batches:
            self.step(mixed, clean)
        return float(self.running.result())


def main():
    mixer = Mixer(make_corpus(3600, True, 1), make_corpus(1800, False, 2))
    batches = finish(mixer.segments(19200), batch_size=64)
    trainer = Trainer(mask_net(), lr=4e-4)
    best = float("inf")
    for number in range(1, 51):
        began = time.time()
        loss = trainer.epoch(batches)
        print(f"epoch {number:3d}  l1 {loss:.4f}  {time.time() - began:.1f}s")
        if loss < best:
            best = loss
            trainer.model.save_weights("denoise.weights.h5")


if __name__ == "__main__":
    main()
