import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(0)
raw = [tf.io.encode_jpeg(tf.cast(p, tf.uint8)).numpy() for p in np.random.rand(64, 64, 64, 3) * 255]


def load(jpeg):
    image = tf.image.resize(tf.io.decode_jpeg(jpeg, channels=3), (32, 32)) / 255.0
    return image, tf.reduce_mean(image)


ds = tf.data.Dataset.from_tensor_slices(raw)
ds = ds.map(load, num_parallel_calls=4).batch(32)
model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(1)])
model.compile("sgd", "mse")
history = model.fit(ds)
