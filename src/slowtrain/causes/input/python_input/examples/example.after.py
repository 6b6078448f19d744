import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(0)
xs, ys = np.random.rand(5000, 8).astype("float32"), np.random.rand(5000, 1).astype("float32")


def samples():
    for x, y in zip(xs, ys):
        yield x, y


spec = (tf.TensorSpec((8,), tf.float32), tf.TensorSpec((1,), tf.float32))
ds = tf.data.Dataset.from_tensor_slices(
    tuple(
        np.array(part, spec.dtype.as_numpy_dtype)
        for part, spec in zip(zip(*samples()), spec)
    )
).batch(100).prefetch(2)
model = keras.Sequential([keras.layers.Dense(1)])
model.compile("sgd", "mse")
history = model.fit(ds)
