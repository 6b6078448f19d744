"""Speech denoiser with a learned causal filter bank front-end."""
import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

FS = 8000
CLIP = 8000
TAPS = 96
BANKS = 48


class CausalFilterBank(layers.Layer):
    """y[t] = sum_k x[t - k] W[k]"""

    def __init__(self, filters, taps, **kwargs):
        super().__init__(**kwargs)
        self.filters = filters
        self.taps = taps

    def build(self, input_shape):
        self.w = self.add_weight(
            name="w", shape=(self.taps, input_shape[-1], self.filters),
            initializer="glorot_uniform",
        )
        self.b = self.add_weight(name="b", shape=(self.filters,), initializer="zeros")

    def call(self, x):
        padded = tf.pad(x, [[0, 0], [self.taps - 1, 0], [0, 0]])
        out = tf.nn.conv1d(padded, self.w, stride=1, padding="VALID")
        return tf.nn.bias_add(out, self.b)

    def compute_output_shape(self, s):
        return (s[0], s[1], self.filters)


def build_denoiser():
    noisy = keras.Input((CLIP, 1))
    h = CausalFilterBank(BANKS, TAPS, name="frontend")(noisy)
    mask = layers.Dense(BANKS, activation="relu")(h)
    mask = layers.Dense(BANKS, activation="sigmoid")(mask)
    clean = layers.Dense(1)(layers.Multiply()([h, mask]))
    return keras.Model(noisy, clean)


def make_pairs(n, seed):
    rng = np.random.default_rng(seed)
    t = np.arange(CLIP) / FS
    f = rng.uniform(120, 900, (n, 1))
    clean = np.sin(2 * np.pi * f * t) * np.exp(-2 * t)
    noisy = clean + 0.3 * rng.standard_normal((n, CLIP))
    return noisy[..., None].astype("float32"), clean[..., None].astype("float32")


def si_sdr_loss(ref, est):
    alpha = tf.reduce_sum(ref * est, 1, keepdims=True) / (tf.reduce_sum(ref * ref, 1, keepdims=True) + 1e-8)
    target = alpha * ref
    noise = est - target
    ratio = tf.reduce_sum(target ** 2, 1) / (tf.reduce_sum(noise ** 2, 1) + 1e-8)
    return -10.0 * tf.math.log(ratio + 1e-8) / tf.math.log(10.0)


def main():
    x, y = make_pairs(2000, 0)
    xv, yv = make_pairs(200, 1)
    ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(2000).batch(16).prefetch(tf.data.AUTOTUNE)
    dv = tf.data.Dataset.from_tensor_slices((xv, yv)).batch(32).prefetch(1)
    model = build_denoiser()
    model.compile(optimizer=keras.optimizers.Adam(1e-3), loss=si_sdr_loss)
    model.fit(ds, validation_data=dv, epochs=8, verbose=2)


if __name__ == "__main__":
    main()
