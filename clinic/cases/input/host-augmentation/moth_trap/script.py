"""Night moths from a light trap.  24x24 thumbnails, eight families, turned and tinted at random."""
import time

import numpy as np
import tensorflow as tf
from tensorflow.keras import layers

tf.keras.utils.set_random_seed(40)
rng = np.random.default_rng(40)
family = rng.integers(0, 8, 1280)
base = rng.integers(0, 255, (8, 24, 24, 3))
thumbs = np.clip(base[family] + rng.normal(0, 25, (1280, 24, 24, 3)), 0, 255).astype("uint8")


def unsettle(x):
    """Wings, light and colour as the trap's lamp shows them."""
    x = tf.cast(x, tf.float32) / 255.
    x = tf.image.random_flip_left_right(x, seed=1)
    x = tf.image.random_flip_up_down(x, seed=2)
    x = tf.image.rot90(x, tf.random.uniform((), 0, 4, tf.int32, seed=3))
    x = tf.image.random_brightness(x, .2, seed=4)
    x = tf.image.random_contrast(x, .7, 1.3, seed=5)
    x = tf.image.random_saturation(x, .6, 1.4, seed=6)
    x = tf.image.random_hue(x, .08, seed=7)
    return tf.clip_by_value(x, 0., 1.) * 255.


catch = (tf.data.Dataset.from_tensor_slices((thumbs, family))
         .shuffle(1280, seed=0)
         .map(lambda x, y: (unsettle(x), y), num_parallel_calls=tf.data.AUTOTUNE)
         .batch(64, drop_remainder=True)
         .prefetch(tf.data.AUTOTUNE))

net = tf.keras.Sequential([
    layers.Input((24, 24, 3)),
    layers.Rescaling(1 / 127.5, offset=-1),
    layers.Conv2D(12, 3, strides=2, activation="relu"),
    layers.Conv2D(24, 3, strides=2, activation="relu"),
    layers.Flatten(),
    layers.Dense(8)])
net.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
t0 = time.time()
net.fit(catch, epochs=14, verbose=2)
print(f"{14 * 20} steps in {time.time() - t0:.2f} s")
