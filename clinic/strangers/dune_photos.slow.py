"""Dune types from aerial photos; strong colour jitter against overfitting."""
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(21)
rng = np.random.default_rng(21)

N, SIZE = 640, 96
kinds = rng.integers(0, 5, N)
yy, xx = np.mgrid[0:SIZE, 0:SIZE]
photos = np.empty((N, SIZE, SIZE, 3), np.uint8)
for i, k in enumerate(kinds):
    wave = np.sin((xx * (k + 1) + yy * (5 - k)) / 9.0 + rng.uniform(0, 6))
    base = 140 + 60 * wave[..., None] * np.array([1.0, 0.8, 0.5])
    photos[i] = np.clip(base + rng.normal(0, 12, (SIZE, SIZE, 3)), 0, 255)


def jitter(img, label):
    img = tf.image.convert_image_dtype(img, tf.float32)
    img = tf.image.resize_with_crop_or_pad(img, SIZE + 16, SIZE + 16)
    img = tf.image.random_crop(img, (SIZE, SIZE, 3))
    img = tf.image.random_flip_left_right(img)
    img = tf.image.random_flip_up_down(img)
    img = tf.image.random_hue(img, 0.08)
    img = tf.image.random_saturation(img, 0.7, 1.4)
    img = tf.image.random_contrast(img, 0.7, 1.3)
    img = img + tf.random.normal(tf.shape(img), stddev=0.03)
    return tf.clip_by_value(img, 0.0, 1.0), label


train = (
    tf.data.Dataset.from_tensor_slices((photos, kinds))
    .cache()
    .shuffle(N, seed=3)
    .map(jitter, num_parallel_calls=tf.data.AUTOTUNE)
    .batch(32)
    .prefetch(tf.data.AUTOTUNE)
)

model = tf.keras.Sequential([
    tf.keras.layers.Input((SIZE, SIZE, 3)),
    tf.keras.layers.Conv2D(8, 5, strides=4, activation="relu"),
    tf.keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
    tf.keras.layers.GlobalAveragePooling2D(),
    tf.keras.layers.Dense(5),
])
model.compile(
    optimizer="adam",
    loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
model.fit(train, epochs=10, verbose=2)
