"""Contrastive pretraining (two views) on small colour radiographs."""
import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

SIDE = 32
BATCH = 24


def radiographs(n):
    g = np.random.default_rng(5)
    small = g.random((n, 12, 12, 3)).astype("float32")
    big = tf.image.resize(small, (256, 256)).numpy()
    return (big * 255).astype("uint8")


def view(img):
    out = tf.image.random_crop(img, [240, 240, 3])
    out = tf.image.random_flip_left_right(out)
    out = tf.image.random_jpeg_quality(out, 30, 95)
    out = tf.image.resize(out, [SIDE, SIDE])
    return tf.image.random_contrast(out / 255.0, 0.6, 1.4)


def steady_order(ds):
    opts = tf.data.Options()
    opts.deterministic = True
    opts.threading.private_threadpool_size = 1
    return ds.with_options(opts)


def pairs(images):
    ds = tf.data.Dataset.from_tensor_slices(images).shuffle(len(images)).repeat()
    ds = ds.map(lambda i: (view(i), view(i)), num_parallel_calls=2)
    return steady_order(ds.batch(BATCH).prefetch(2))


class TwoViews(keras.Model):
    def __init__(self):
        super().__init__()
        self.body = keras.Sequential(
            [
                layers.Conv2D(8, 5, strides=4, activation="relu"),
                layers.Conv2D(16, 3, strides=2, activation="relu"),
                layers.GlobalAveragePooling2D(),
                layers.Dense(32),
            ]
        )

    def call(self, views):
        return [ops.normalize(self.body(v), axis=-1) for v in views]

    def train_step(self, views):
        with tf.GradientTape() as tape:
            a, b = self(views, training=True)
            logits = ops.matmul(a, ops.transpose(b)) / 0.1
            loss = ops.mean(keras.losses.sparse_categorical_crossentropy(ops.arange(BATCH), logits, from_logits=True))
        w = self.trainable_weights
        self.optimizer.apply(tape.gradient(loss, w), w)
        return {"nce": loss}


model = TwoViews()
model.compile(optimizer=keras.optimizers.Adam(1e-3))
h = model.fit(pairs(radiographs(300)), steps_per_epoch=75, epochs=4, verbose=2)
print("contrastive loss", h.history["nce"][-1])
