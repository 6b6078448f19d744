"""Land cover segmentation of small satellite tiles with a shallow U-Net."""
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

TILE, CLASSES, BATCH = 96, 5, 8
EPOCHS, STEPS = 4, 10


def make_tiles(n, seed=9):
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, CLASSES, (n, TILE // 16, TILE // 16)).astype("uint8")
    codes = np.array([11, 21, 41, 81, 90], "uint8")
    mask = codes[coarse].repeat(16, axis=1).repeat(16, axis=2)
    rgb = (mask[..., None] * np.array([2.0, 1.5, 1.0])).clip(0, 200)
    rgb = rgb + rng.integers(0, 50, rgb.shape)
    return rgb.astype("uint8"), mask


LOOKUP = np.zeros(256, "int32")
for k, code in enumerate((11, 21, 41, 81, 90)):
    LOOKUP[code] = k


def remap(masks):
    return LOOKUP[masks]


def decode(rgb, masks):
    labels = tf.numpy_function(remap, [masks], tf.int32)
    labels.set_shape(masks.shape)
    return tf.cast(rgb, tf.float32) / 255.0, labels


def conv_block(x, filters):
    x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
    return layers.Conv2D(filters, 3, padding="same", activation="relu")(x)


def unet():
    image = keras.Input((TILE, TILE, 3))
    skip = conv_block(image, 32)
    deep = conv_block(layers.MaxPooling2D()(skip), 64)
    up = layers.UpSampling2D()(deep)
    merged = conv_block(layers.Concatenate()([skip, up]), 32)
    return keras.Model(image, layers.Conv2D(CLASSES, 1)(merged))


def main():
    keras.utils.set_random_seed(4)
    rgb, masks = make_tiles(BATCH * STEPS)
    data = (tf.data.Dataset.from_tensor_slices((rgb, masks))
            .shuffle(BATCH * STEPS)
            .batch(BATCH, drop_remainder=True)
            .map(decode, num_parallel_calls=tf.data.AUTOTUNE)
            .prefetch(tf.data.AUTOTUNE))

    model = unet()
    optimizer = keras.optimizers.Adam(1e-3)
    optimizer.build(model.trainable_variables)
    loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    total = tf.Variable(0.0)

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_fn(y, model(x, training=True))
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))
        total.assign_add(loss)

    t0, tiles = time.perf_counter(), 0
    for epoch in range(EPOCHS):
        total.assign(0.0)
        for x, y in data:
            step(x, y)
            tiles += BATCH
        print(f"epoch {epoch}: loss {total.numpy() / STEPS:.4f}")
    seconds = time.perf_counter() - t0
    print("WORK", tiles)
    print(f"TRAIN_SECONDS {seconds:.3f}")


if __name__ == "__main__":
    main()
