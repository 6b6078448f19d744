"""Speaker id with a small TDNN (x-vector style) over filterbank frames."""
import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

FRAMES = 200
BANKS = 40


class TDNNLayer(layers.Layer):
    """Each output frame sees `context` neighbouring input frames."""

    def __init__(self, units, context, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.context = context
        self.norm = layers.BatchNormalization()

    def build(self, input_shape):
        dim = input_shape[-1]
        self.frames_out = input_shape[1] - self.context + 1
        self.w = self.add_weight(name="w", shape=(self.context, dim, self.units),
                                 initializer="he_normal")
        self.b = self.add_weight(name="b", shape=(self.units,), initializer="zeros")

    def call(self, x, training=False):
        outs = []
        for t in range(self.frames_out):
            window = x[:, t:t + self.context, :]
            outs.append(tf.einsum("bkd,kdu->bu", window, self.w) + self.b)
        h = tf.nn.relu(tf.stack(outs, axis=1))
        return self.norm(h, training=training)


class StatsPooling(layers.Layer):
    def call(self, x):
        mean = tf.reduce_mean(x, axis=1)
        var = tf.reduce_mean(tf.square(x - mean[:, None]), axis=1)
        return tf.concat([mean, tf.sqrt(var + 1e-5)], axis=-1)


class XVector(keras.Model):
    def __init__(self, n_speakers, width=256):
        super().__init__()
        self.frame_layers = [TDNNLayer(width, 5), TDNNLayer(width, 3),
                             TDNNLayer(width, 3), TDNNLayer(width, 1)]
        self.pool = StatsPooling()
        self.seg1 = layers.Dense(256)
        self.seg_bn = layers.BatchNormalization()
        self.out = layers.Dense(n_speakers)

    def embed(self, x, training=False):
        for layer in self.frame_layers:
            x = layer(x, training=training)
        return self.seg1(self.pool(x))

    def call(self, x, training=False):
        e = self.embed(x, training=training)
        return self.out(tf.nn.relu(self.seg_bn(e, training=training)))


def synthetic_corpus(n_speakers=200, utt_per_speaker=80):
    rng = np.random.default_rng(8)
    voice = rng.normal(size=(n_speakers, 1, BANKS)).astype("float32")
    y = np.repeat(np.arange(n_speakers, dtype="int32"), utt_per_speaker)
    rng.shuffle(y)
    x = voice[y] * 0.5 + rng.standard_normal((len(y), FRAMES, BANKS), dtype=np.float32)
    x -= x.mean(axis=(0, 1), keepdims=True)
    return x, y


def pipeline(x, y, batch, shuffle):
    ds = tf.data.Dataset.from_tensor_slices((x, y))
    if shuffle:
        ds = ds.shuffle(3000)
    return ds.batch(batch).prefetch(tf.data.AUTOTUNE)


def main():
    x, y = synthetic_corpus()
    n_val = 1500
    train_ds = pipeline(x[n_val:], y[n_val:], 128, True)
    val_ds = pipeline(x[:n_val], y[:n_val], 256, False)

    model = XVector(n_speakers=int(y.max()) + 1)
    model.compile(
        optimizer=keras.optimizers.Adam(1e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    model.fit(
        train_ds,
        validation_data=val_ds,
        epochs=30,
        verbose=2,
        callbacks=[keras.callbacks.EarlyStopping("val_accuracy", patience=6,
                                                 restore_best_weights=True)],
    )
    model.save_weights("xvector.weights.h5")


if __name__ == "__main__":
    main()
