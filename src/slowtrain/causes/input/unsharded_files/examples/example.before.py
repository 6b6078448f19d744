import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(0)
names = [f"{i}.raw" for i in range(500)]
for name in names:
    tf.io.write_file(name, np.random.bytes(28 * 28))


def read(name):
    pixels = tf.io.decode_raw(tf.io.read_file(name), tf.uint8)
    return tf.cast(tf.reshape(pixels, (28, 28)), tf.float32) / 255.0, 1.0


ds = tf.data.Dataset.from_tensor_slices(names)
ds = ds.map(read, num_parallel_calls=4).batch(50).prefetch(2)
model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(1)])
model.compile("sgd", "mse")
history = model.fit(ds)
