"""Landmark retrieval: EfficientNetV2-B0 + ArcFace, trained in short rounds so that we see recall often."""
import functools
import math
import os

import numpy as np
import tensorflow as tf
import keras
from keras import ops

DATA = os.environ.get("LANDMARKS", "/mnt/datasets/gldv2_clean")
OUT = os.environ.get("OUT", "/mnt/experiments/landmarks/b0_arcface")

SIZE = 224
BATCH = 96
CLASSES = 8192        # the most frequent ones
EMBED = 256
ROUND_STEPS = 120
ROUNDS = 600
SHUFFLE = 10_000      # records are about 110 kB each

keras.utils.set_random_seed(1)
keras.mixed_precision.set_global_policy("mixed_bfloat16")


def parse(record, training):
    ex = tf.io.parse_single_example(
        record,
        {"image/encoded": tf.io.FixedLenFeature([], tf.string), "image/class/label": tf.io.FixedLenFeature([], tf.int64)},
    )
    if training:
        shape = tf.io.extract_jpeg_shape(ex["image/encoded"])
        begin, size, _ = tf.image.sample_distorted_bounding_box(
            shape, tf.zeros((1, 0, 4)), area_range=(0.5, 1.0), min_object_covered=0.0, use_image_if_no_bounding_boxes=True
        )
        window = tf.stack([begin[0], begin[1], size[0], size[1]])
        image = tf.io.decode_and_crop_jpeg(ex["image/encoded"], window, channels=3)
    else:
        image = tf.io.decode_jpeg(ex["image/encoded"], channels=3)
    image = tf.image.resize(image, (SIZE, SIZE))
    return tf.cast(image, tf.uint8), tf.cast(ex["image/class/label"], tf.int32)


def train_data():
    files = tf.data.Dataset.list_files(f"{DATA}/train-*.tfrecord", shuffle=True).repeat()
    records = files.interleave(
        tf.data.TFRecordDataset, cycle_length=32, num_parallel_calls=tf.data.AUTOTUNE, deterministic=False
    )
    records = records.shuffle(SHUFFLE)
    images = records.map(functools.partial(parse, training=True), num_parallel_calls=tf.data.AUTOTUNE)
    return images.batch(BATCH, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


def index_data():
    files = sorted(tf.io.gfile.glob(f"{DATA}/index-*.tfrecord"))
    ds = tf.data.TFRecordDataset(files, num_parallel_reads=tf.data.AUTOTUNE)
    ds = ds.map(functools.partial(parse, training=False), num_parallel_calls=tf.data.AUTOTUNE)
    return ds.batch(256).prefetch(tf.data.AUTOTUNE)


class ArcFace(keras.layers.Layer):
    """Cosine logits; the margin goes on inside the loss."""

    def __init__(self, classes, **kwargs):
        super().__init__(dtype="float32", **kwargs)
        self.classes = classes

    def build(self, shape):
        self.w = self.add_weight(shape=(shape[-1], self.classes), initializer="glorot_uniform", name="centers")

    def call(self, x):
        return ops.matmul(ops.normalize(x, axis=-1), ops.normalize(self.w, axis=0))


def arcface_loss(y_true, cosine, margin=0.3, scale=32.0):
    y = ops.one_hot(ops.cast(ops.reshape(y_true, (-1,)), "int32"), CLASSES)
    sine = ops.sqrt(ops.clip(1.0 - ops.square(cosine), 1e-6, 1.0))
    moved = cosine * math.cos(margin) - sine * math.sin(margin)
    logits = scale * (y * moved + (1.0 - y) * cosine)
    return keras.losses.categorical_crossentropy(y, logits, from_logits=True)


def build():
    base = keras.applications.EfficientNetV2B0(include_top=False, input_shape=(SIZE, SIZE, 3), pooling="avg")
    inputs = keras.Input((SIZE, SIZE, 3))
    x = keras.layers.RandomFlip("horizontal")(inputs)
    x = base(x)
    x = keras.layers.Dropout(0.2)(x)
    embedding = keras.layers.Dense(EMBED, name="embedding")(x)
    model = keras.Model(inputs, ArcFace(CLASSES, name="arcface")(embedding))
    return model, keras.Model(inputs, embedding)


class RetrievalRecall(keras.callbacks.Callback):
    def __init__(self, encoder, dataset, every=50):
        super().__init__()
        self.encoder, self.dataset, self.every = encoder, dataset, every

    def on_train_begin(self, logs=None):
        self.labels = np.concatenate([y.numpy() for _, y in self.dataset])

    def on_epoch_end(self, epoch, logs=None):
        if (epoch + 1) % self.every:
            return
        z = self.encoder.predict(self.dataset, verbose=0).astype("float32")
        z /= np.linalg.norm(z, axis=1, keepdims=True)
        similarity = z @ z.T
        np.fill_diagonal(similarity, -1.0)
        print(f"\nround {epoch + 1}: recall@1 {np.mean(self.labels[similarity.argmax(1)] == self.labels):.4f}")


os.makedirs(OUT, exist_ok=True)
model, encoder = build()
schedule = keras.optimizers.schedules.CosineDecay(1e-3, ROUND_STEPS * ROUNDS, alpha=0.01)
model.compile(keras.optimizers.Adam(schedule), loss=arcface_loss, metrics=["sparse_categorical_accuracy"])

model.fit(
    train_data(),
    steps_per_epoch=ROUND_STEPS,
    epochs=ROUNDS,
    verbose=2,
    callbacks=[
        RetrievalRecall(encoder, index_data()),
        keras.callbacks.TerminateOnNaN(),
        keras.callbacks.CSVLogger(f"{OUT}/rounds.csv"),
    ],
)
encoder.save(f"{OUT}/encoder.keras")
