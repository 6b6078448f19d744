import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(0)
names = [f"{i}.jpg" for i in range(200)]
for name, pixels in zip(names, np.random.randint(256, size=(200, 64, 64, 3))):
    tf.io.write_file(name, tf.io.encode_jpeg(tf.cast(pixels, tf.uint8)))


def load(name):
    image = tf.image.resize(tf.io.decode_jpeg(tf.io.read_file(name), channels=3), (32, 32)) / 255.0
    return image, tf.reduce_mean(image)


ds = tf.data.Dataset.from_tensor_slices(names)
ds = ds.map(load, num_parallel_calls=4).shuffle(200)
ds = ds.batch(32).prefetch(2)
model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(1)])
model.compile("sgd", "mse")
history = model.fit(ds)
