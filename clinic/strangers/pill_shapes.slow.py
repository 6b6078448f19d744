"""Outline of pills: small segmentation net, images of many sizes cut to one size."""
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(61)
rng = np.random.default_rng(61)

SIZE = 24
yy, xx = np.mgrid[0:SIZE, 0:SIZE]


def pill():
    cy, cx = rng.uniform(8, 16, 2)
    ry, rx = rng.uniform(3, 7, 2)
    mask = (((yy - cy) / ry) ** 2 + ((xx - cx) / rx) ** 2 < 1).astype("float32")
    image = 0.2 + 0.5 * mask + rng.normal(0, 0.15, (SIZE, SIZE))
    return image.astype("float32")[..., None], mask[..., None]


pairs = [pill() for _ in range(700)]
images = np.stack([i for i, _ in pairs])
masks = np.stack([m for _, m in pairs])


def add_dims(image, mask):
    return tf.expand_dims(image, 0), tf.expand_dims(mask, 0)


dataset = tf.data.Dataset.from_tensor_slices((images, masks))
dataset = dataset.shuffle(700, seed=4)
dataset = dataset.map(add_dims, num_parallel_calls=tf.data.AUTOTUNE)
dataset = dataset.prefetch(8)


def conv(x, filters, strides=1):
    x = tf.keras.layers.Conv2D(filters, 3, strides=strides, padding="same", use_bias=False)(x)
    x = tf.keras.layers.BatchNormalization()(x)
    return tf.keras.layers.ReLU()(x)


inputs = tf.keras.Input((SIZE, SIZE, 1))
d1 = conv(inputs, 8)
d2 = conv(d1, 12, strides=2)
d3 = conv(d2, 16, strides=2)
u2 = tf.keras.layers.UpSampling2D()(d3)
u2 = conv(tf.keras.layers.Concatenate()([u2, d2]), 12)
u1 = tf.keras.layers.UpSampling2D()(u2)
u1 = conv(tf.keras.layers.Concatenate()([u1, d1]), 8)
outputs = tf.keras.layers.Conv2D(1, 1)(u1)
model = tf.keras.Model(inputs, outputs)

model.compile(
    optimizer=tf.keras.optimizers.Adam(1e-3),
    loss=tf.keras.losses.BinaryCrossentropy(from_logits=True),
)
model.fit(dataset, epochs=2, verbose=2)
